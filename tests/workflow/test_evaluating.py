"""Scores, leaks and the form that programs rely on."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu
import torch
from sentences import SENTENCES
from tolerances import NLL, SHARE

from knnmt.datastore import Store
from knnmt.decoding import Settings, Translator
from knnmt.errors import EvaluationError, KnnmtError, MethodError
from knnmt.model import Engine, Purpose, TranslationModel, choose_engine
from knnmt.workflow import build, evaluate, fit

WriteCorpus = Callable[..., list[Path]]
DEV = [(f"{source} Bitte.", target) for source, target in SENTENCES[20:32]]
LEAKED = [(f"{source.upper()} ", target) for source, target in SENTENCES[40:43]]
UNSEEN = SENTENCES[:6]
QUICK = Settings(beam=2, split=False)
NUMBERS = {"bleu", "brevity_penalty", "chrf", "sentences_per_second", "tokens_per_second", "nll"}


@pytest.fixture
def fitted(store: Store, model: TranslationModel, write_corpus: WriteCorpus) -> Store:
    dev = write_corpus(DEV, "dev")
    fit(store, dev, "vanilla", model=model, decode_best=0, k=4)
    return fit(store.path, dev, "vanilla", model=model, decode_best=0, k=8, name="wide").store


def test_the_form_that_programs_rely_on(fitted: Store, model: TranslationModel, write_corpus: WriteCorpus) -> None:
    result = evaluate(fitted, write_corpus(UNSEEN[:3]), settings=QUICK, model=model)
    value = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert list(value["systems"]) == ["base", "vanilla", "wide"], "base and all that were fitted"
    for name, system in value["systems"].items():
        numbers = NUMBERS if name == "base" else NUMBERS | {"gold_in_k", "mean_lambda"}
        assert all(isinstance(system[number], float) for number in numbers)
        low, high = system["bleu_ci"]
        assert low <= high
        assert system["comet"] is None
        assert system["nll"] > 0
        assert system["tokens_per_second"] > system["sentences_per_second"] > 0
    base, vanilla = value["systems"]["base"], value["systems"]["vanilla"]
    assert base["gold_in_k"] is None
    assert base["mean_lambda"] is None
    assert 0 < vanilla["gold_in_k"] <= value["systems"]["wide"]["gold_in_k"] <= 1
    assert 0 < vanilla["mean_lambda"] < 1
    assert vanilla["nll"] != base["nll"]
    assert base["lambda_by_confidence"] == []
    curve = vanilla["lambda_by_confidence"]
    assert [point["confidence"] for point in curve if point["retrieved"]][-1] == [0.8, 1.0]
    means = [point["mean_lambda"] for point in curve if point["positions"]]
    assert means == pytest.approx([vanilla["mean_lambda"]] * len(means), abs=SHARE), (
        "λ of vanilla is the same everywhere"
    )
    significance = value["significance"]
    assert significance.pop("baseline") == "base"
    assert set(significance) == {"vanilla", "wide"}
    assert all(0 < p["bleu_p"] <= 1 for p in significance.values())
    assert value["leaked"] == 0
    assert value["sentences"] == 3
    assert set(value["signature"]) == {"bleu", "chrf", "base", "vanilla", "wide"}
    assert value["systems"]["base"]["bleu_unseen"] is None, "nothing to leave out"


@pytest.mark.parametrize("asked", ["auto", "float32"])
def test_a_store_is_used_at_the_precision_it_was_made_with(
    asked: str, tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus
) -> None:
    """Unless another is asked for; states that are judged are those that translate."""
    store = build(tmp_path / "int8", write_corpus(SENTENCES[10:], "memory"), model)
    settings = Settings(beam=2, split=False, precision=asked)
    run = evaluate(store, write_corpus(UNSEEN), ["base"], settings=settings, model=model).runs["base"]
    precision = "int8" if asked == "auto" else asked
    assert f"engine:onnx-{precision}" in run.signature
    engines = {name: choose_engine(model, "onnx", name, Purpose.TARGETS) for name in ("float32", "int8")}
    nll = {name: nll_of(engine) for name, engine in engines.items()}
    apart = abs(nll["float32"] - nll["int8"])
    assert apart > 1e-5, "the two can be told apart"
    assert run.nll == pytest.approx(nll[precision], abs=apart / 100)


def nll_of(engine: Engine) -> float:
    """In batches of the same shapes as those of `evaluate`: in eight bits rounding moves an NLL as far as precision."""
    sources, targets = zip(*UNSEEN, strict=True)
    codec = engine.model.codec
    batches = engine.batches(codec.encode_sources(sources), codec.encode_targets(targets))
    return -float(torch.cat([engine.log_p(states) for states in batches]).mean())


def test_scores_and_leaks(fitted: Store, model: TranslationModel, write_corpus: WriteCorpus) -> None:
    pairs = [LEAKED[0], *UNSEEN[:4], *LEAKED[1:]]
    result = evaluate(fitted, write_corpus(pairs), ["vanilla", "base"], settings=QUICK, model=model)
    assert result.leaked == 3
    assert result.sentences == 7
    assert result.scores.baseline == "vanilla", "the first of the methods"
    for name in ("vanilla", "base"):
        lines = list(
            Translator.open(fitted, name, model=model, settings=QUICK).translate([source for source, _ in pairs])
        )
        whole = sacrebleu.corpus_bleu(lines, [[target for _, target in pairs]])
        unseen = sacrebleu.corpus_bleu(lines[1:5], [[target for _, target in UNSEEN[:4]]])
        chrf = sacrebleu.corpus_chrf(lines[1:5], [[target for _, target in UNSEEN[:4]]])
        system = result.to_json()["systems"][name]
        assert system["bleu"] == pytest.approx(whole.score)
        assert system["brevity_penalty"] == pytest.approx(whole.bp)
        assert system["bleu_unseen"] == pytest.approx(unseen.score)
        assert system["chrf_unseen"] == pytest.approx(chrf.score)
        assert not math.isclose(system["bleu"], system["bleu_unseen"])


def test_what_is_judged_is_searched_as_in_translating(
    fitted: Store, model: TranslationModel, write_corpus: WriteCorpus
) -> None:
    """Nowhere, here; and whatever settings are given, no line is split."""
    settings = Settings(beam=2, skip_above=1e-6)
    result = evaluate(fitted, write_corpus(UNSEEN), ["base", "vanilla"], settings=settings, model=model)
    base, vanilla = result.runs["base"], result.runs["vanilla"]
    assert vanilla.translations == base.translations
    assert vanilla.nll == pytest.approx(base.nll, abs=NLL)
    assert vanilla.mean_lambda == pytest.approx(0, abs=SHARE)
    assert vanilla.gold_in_k == 0
    assert "split:no" in vanilla.signature


def test_all_leaked(fitted: Store, model: TranslationModel, write_corpus: WriteCorpus) -> None:
    result = evaluate(fitted, write_corpus(LEAKED[:2]), ["base"], settings=QUICK, model=model)
    assert result.leaked == 2
    assert result.unseen is None
    assert result.to_json()["significance"] == {"baseline": "base"}


@pytest.mark.parametrize(
    ("methods", "baseline", "error", "sentence"),
    [
        (["base", "robust"], None, MethodError, "Nothing named robust was fitted .*vanilla, wide"),
        (["base", "vanilla"], "wide", EvaluationError, "baseline wide is not among the methods base, vanilla"),
    ],
)
def test_a_wrong_name_is_told_before_anything_runs(
    fitted: Store,
    write_corpus: WriteCorpus,
    monkeypatch: pytest.MonkeyPatch,
    methods: list[str],
    baseline: str | None,
    error: type[KnnmtError],
    sentence: str,
) -> None:
    monkeypatch.setattr(TranslationModel, "load", lambda *_, **__: pytest.fail("the model is loaded"))
    with pytest.raises(error, match=sentence):
        evaluate(fitted, write_corpus(UNSEEN), methods, baseline=baseline)


def test_a_single_file_and_a_single_method_need_no_list(fitted: Store, model: TranslationModel, tmp_path: Path) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("".join(f"{source}\t{target}\n" for source, target in SENTENCES[:3]), encoding="utf-8")
    alone = evaluate(fitted, str(test), "base", model=model, settings=Settings(beam=1, max_length=5))
    assert list(alone.runs) == ["base"]
    assert alone.sentences == 3
