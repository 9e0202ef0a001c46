import logging
import math
import multiprocessing
import random
from collections import Counter
from functools import cache

import numpy as np
import pytest

from knnmt.errors import EvaluationError
from knnmt.evaluation import PValues, bleu_covariance, corpus_bleu, metrics, score_systems
from knnmt.evaluation.metrics import bleu_tokenizer

WORDS = ["the", "a", "cat", "dog", "house", "tree", "sits", "runs", "near", "under", "big", "small", "red", "old"]


def corrupt(sentence: str, rate: float, generator: random.Random) -> str:
    words = [generator.choice(WORDS) if generator.random() < rate else word for word in sentence.split()]
    return " ".join(words if generator.random() > rate else words[:-1])


@pytest.fixture(scope="module")
def references() -> list[str]:
    generator = random.Random(3)
    return [" ".join(generator.choices(WORDS, k=generator.randint(5, 14))) for _ in range(40)]


@pytest.fixture(scope="module")
def hypotheses(references: list[str]) -> dict[str, list[str]]:
    generator = random.Random(4)
    rates = {"robust": 0.15, "base": 0.35, "close": 0.33}
    return {name: [corrupt(sentence, rate, generator) for sentence in references] for name, rate in rates.items()}


@cache
def ngrams(tokens: tuple[str, ...], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tokens[start : start + order] for start in range(len(tokens) - order + 1))


def naive_bleu(hypotheses: list[str], references: list[str]) -> tuple[float, float]:
    """BLEU and brevity penalty of text without punctuation, where no order is without a match."""
    logs = 0.0
    for order in range(1, 5):
        matches = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            have, want = (ngrams(tuple(text.split()), order) for text in (hypothesis, reference))
            matches += (have & want).total()
            total += have.total()
        logs += math.log(matches / total) / 4
    length, wanted = (sum(len(text.split()) for text in texts) for texts in (hypotheses, references))
    penalty = min(1.0, math.exp(1 - wanted / length))
    return 100 * penalty * math.exp(logs), penalty


def naive_chrf(hypotheses: list[str], references: list[str]) -> float:
    precisions, recalls = [], []
    for order in range(1, 7):
        matches = have_total = want_total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            have, want = (ngrams(tuple(text.replace(" ", "")), order) for text in (hypothesis, reference))
            matches += (have & want).total()
            have_total += have.total()
            want_total += want.total()
        precisions.append(matches / have_total)
        recalls.append(matches / want_total)
    precision, recall = sum(precisions) / 6, sum(recalls) / 6
    return 100 * 5 * precision * recall / (4 * precision + recall)


def test_bleu_of_a_tiny_example() -> None:
    hypothesis, reference = "the cat sat on the mat today", "the cat sat on a mat today again"
    # matches of 1 to 4 words: 6 of 7 (one "the" is too many), 4 of 6, 2 of 5, 1 of 4
    expected = 100 * math.exp(1 - 8 / 7) * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25
    score = score_systems({"only": [hypothesis]}, [reference], "only", resamples=10).systems["only"]
    assert score.bleu == pytest.approx(expected)
    assert score.brevity_penalty == pytest.approx(math.exp(1 - 8 / 7))
    assert score.bleu_ci == pytest.approx((expected, expected)), "one sentence can be drawn in one way only"


def test_case_and_punctuation_count() -> None:
    scores = score_systems(
        {"a": ["Yes, the cat sat there."], "b": ["yes , the cat sat there ."]}, ["Yes, the cat sat there."], "a"
    )
    assert scores.systems["a"].bleu == pytest.approx(100)
    assert scores.systems["b"].bleu < 90
    assert "case:mixed" in scores.signatures["bleu"]
    assert "tok:13a" in scores.signatures["bleu"]


def test_scores_agree_with_naive_ones(hypotheses: dict[str, list[str]], references: list[str]) -> None:
    scores = score_systems(hypotheses, references, "base", resamples=5)
    assert list(scores.systems) == ["robust", "base", "close"], "in the order given, wherever the baseline stands"
    for name, score in scores.systems.items():
        bleu, penalty = naive_bleu(hypotheses[name], references)
        assert (score.bleu, score.brevity_penalty) == pytest.approx((bleu, penalty))
        assert score.brevity_penalty < 1
        assert score.chrf == pytest.approx(naive_chrf(hypotheses[name], references))


@pytest.mark.parametrize("seed", [None, "7"])
def test_intervals_and_p_values_agree_with_a_naive_bootstrap(
    hypotheses: dict[str, list[str]], references: list[str], monkeypatch: pytest.MonkeyPatch, seed: str | None
) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    if seed is not None:
        monkeypatch.setenv("SACREBLEU_SEED", seed)
    resamples = 120
    scores = score_systems(hypotheses, references, "base", resamples)
    drawn = np.random.default_rng(int(seed or 12345)).choice(40, size=(resamples, 40), replace=True)
    naive = {"bleu": lambda *texts: naive_bleu(*texts)[0], "chrf": naive_chrf}
    for metric, function in naive.items():
        assert f"bs:{resamples}|seed:{seed or 12345}" in scores.signatures[metric]
        values = {
            name: np.array([function([texts[i] for i in rows], [references[i] for i in rows]) for rows in drawn])
            for name, texts in hypotheses.items()
        }
        for name, value in values.items():
            ordered = np.sort(value)
            half = (ordered[-1 - resamples // 40] - ordered[resamples // 40]) / 2
            low, high = getattr(scores.systems[name], f"{metric}_ci")
            assert (low, high) == pytest.approx((value.mean() - half, value.mean() + half), abs=1e-3)
            assert low < getattr(scores.systems[name], metric) < high
        for name, p_values in scores.p_values.items():
            difference = abs(function(hypotheses[name], references) - function(hypotheses["base"], references))
            centred = np.abs(values[name] - values["base"])
            centred -= centred.mean()
            expected = ((centred > difference).sum() + 1) / (resamples + 1)
            assert getattr(p_values, f"{metric}_p") == pytest.approx(expected)
    assert list(scores.p_values) == ["robust", "close"]
    assert scores.p_values["robust"].bleu_p < 0.05 < scores.p_values["close"].bleu_p


def test_one_system_has_an_interval_and_no_comparison(hypotheses: dict[str, list[str]], references: list[str]) -> None:
    both = score_systems(hypotheses, references, "base", resamples=50)
    alone = score_systems({"robust": hypotheses["robust"]}, references, "robust", resamples=50)
    assert alone.p_values == {}
    assert alone.systems == {"robust": both.systems["robust"]}
    assert (alone.baseline, both.baseline) == ("robust", "base")
    assert alone.signatures["bleu"].startswith("BLEU|nrefs:1|bs:50|seed:")
    assert alone.signatures["chrf"].startswith("chrF2|nrefs:1|bs:50|seed:")


def test_a_system_that_equals_its_baseline_is_not_significantly_different(
    hypotheses: dict[str, list[str]], references: list[str]
) -> None:
    scores = score_systems({"base": hypotheses["base"], "same": hypotheses["base"]}, references, "base", resamples=50)
    assert scores.p_values == {"same": PValues(1.0, 1.0)}


def test_no_processes_and_no_noise(
    references: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(method: str | None = None) -> None:
        raise AssertionError("a process pool was asked for")

    monkeypatch.setattr(multiprocessing, "get_context", refuse)
    caplog.set_level(logging.DEBUG)
    tokenised = [f"{sentence} ." for sentence in references * 3]
    score_systems({"a": tokenised, "b": tokenised[::-1], "c": tokenised}, tokenised, "a", resamples=3)
    assert caplog.records == []
    logging.getLogger("sacrebleu").warning("heard")
    assert [record.message for record in caplog.records] == ["heard"], "others still hear sacrebleu"


def test_what_cannot_be_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EvaluationError, match="nothing to evaluate"):
        score_systems({"base": []}, [], "base")
    with pytest.raises(EvaluationError, match="nothing to evaluate"):
        score_systems({}, ["a"], "base")
    with pytest.raises(EvaluationError, match="robust has 1 translations for 2 references"):
        score_systems({"base": ["a", "b"], "robust": ["a"]}, ["a", "b"], "base")
    with pytest.raises(EvaluationError, match="baseline base is none of the systems robust, vanilla"):
        score_systems({"robust": ["a"], "vanilla": ["b"]}, ["a"], "base")
    for seed in ("0", "-1", "many", ""):
        monkeypatch.setenv("SACREBLEU_SEED", seed)
        with pytest.raises(EvaluationError, match=f"SACREBLEU_SEED is '{seed}'"):
            score_systems({"base": ["a"]}, ["a"], "base")


def test_translations_that_are_all_empty_score_nothing() -> None:
    score = score_systems({"base": ["", ""]}, ["one cat", "two cats"], "base", resamples=5).systems["base"]
    assert (score.bleu, score.chrf, score.brevity_penalty) == (0, 0, 0)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        (None, "13a"),
        ("en", "13a"),
        ("deu_Latn", "13a"),
        ("zh", "zh"),
        ("zho_Hans", "zh"),
        ("yue_Hant", "zh"),
        ("th_TH", "char"),
        ("mya_Mymr", "char"),
    ],
)
def test_the_tokenizer_follows_the_target_language(language: str | None, tokenizer: str) -> None:
    assert bleu_tokenizer(language) == tokenizer


@pytest.mark.parametrize(("language", "tokenizer"), [("ja", "ja-mecab"), ("jpn_Jpan", "ja-mecab"), ("ko", "ko-mecab")])
def test_mecab_where_it_is_installed(monkeypatch: pytest.MonkeyPatch, language: str, tokenizer: str) -> None:
    monkeypatch.setattr(metrics, "find_spec", lambda name: object())
    assert bleu_tokenizer(language) == tokenizer
    monkeypatch.setattr(metrics, "find_spec", lambda name: None)
    assert bleu_tokenizer(language) == "char"


def test_a_nearly_perfect_chinese_translation() -> None:
    references = ["请重新启动服务，然后再试一次。", "该文件已经被删除，无法恢复。"]
    hypotheses = ["请重新启动服务，然后再试一遍。", "该文件已经被删除，不能恢复。"]
    assert corpus_bleu(hypotheses, references) < 5
    assert corpus_bleu(hypotheses, references, "zh") > 60
    scores = score_systems({"mine": hypotheses}, references, "mine", resamples=10, target_lang="zho_Hans")
    assert scores.systems["mine"].bleu == pytest.approx(corpus_bleu(hypotheses, references, "zh"))
    assert "tok:zh" in scores.signatures["bleu"]


def test_covariance_of_resampled_scores(hypotheses: dict[str, list[str]], references: list[str]) -> None:
    """BLEU of each resampled test set, written out."""
    found = bleu_covariance(hypotheses, references, resamples=60)
    counts = np.random.default_rng(12345).multinomial(40, [1 / 40] * 40, size=60)
    lists = [np.repeat(np.arange(40), line) for line in counts]
    scores = [
        [corpus_bleu([lines[i] for i in drawn], [references[i] for i in drawn]) for drawn in lists]
        for lines in hypotheses.values()
    ]
    means = [sum(line) / 60 for line in scores]
    naive = [
        [
            sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / 59
            for ys, my in zip(scores, means, strict=True)
        ]
        for xs, mx in zip(scores, means, strict=True)
    ]
    assert found == pytest.approx(np.array(naive))


def test_covariance_agrees_with_the_intervals(hypotheses: dict[str, list[str]], references: list[str]) -> None:
    """Half of a 95% interval is about two deviations."""
    variances = np.diag(bleu_covariance(hypotheses, references))
    scores = score_systems(hypotheses, references, "base")
    for variance, score in zip(variances, scores.systems.values(), strict=True):
        low, high = score.bleu_ci
        assert np.sqrt(variance) == pytest.approx((high - low) / 2 / 1.96, rel=0.15)


def test_covariance_of_one_system(hypotheses: dict[str, list[str]], references: list[str]) -> None:
    assert bleu_covariance({"base": hypotheses["base"]}, references, resamples=5).shape == (1, 1)
