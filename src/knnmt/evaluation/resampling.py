"""How far BLEU scores of systems on one test set vary together, by the bootstrap."""

import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from sacrebleu import BLEU

from knnmt.evaluation.metrics import bleu_tokenizer
from knnmt.evaluation.parallel import check_parallel

_ORDERS = BLEU().max_ngram_order


def bleu_covariance(
    hypotheses: Mapping[str, list[str]], references: list[str], resamples: int = 1000, target_lang: str | None = None
) -> npt.NDArray[np.float64]:
    """The covariance of the systems' BLEU scores over resampled test sets, systems × systems.

    It gives the deviation of every sum of scores with weights w: √(w·C·w). The seed is that of sacrebleu's own
    bootstrap: 12345, or the environment variable SACREBLEU_SEED.
    """
    check_parallel(hypotheses, references)
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    rng = np.random.default_rng(None if seed.lower() == "none" else int(seed))
    size = len(references)
    draws = rng.multinomial(size, np.full(size, 1 / size), size=resamples)
    metric = BLEU(tokenize=bleu_tokenizer(target_lang), effective_order=True)
    scores = [
        [_bleu(sums) for sums in draws @ _statistics(metric, translations, references)]
        for translations in hypotheses.values()
    ]
    return np.atleast_2d(np.cov(np.array(scores)))


def _statistics(metric: BLEU, translations: list[str], references: list[str]) -> npt.NDArray[np.int64]:
    """Of each sentence: the n-grams that are right, all n-grams, and both lengths."""
    found = [metric.sentence_score(line, [reference]) for line, reference in zip(translations, references, strict=True)]
    return np.array([[*each.counts, *each.totals, each.sys_len, each.ref_len] for each in found])


def _bleu(sums: npt.NDArray[np.int64]) -> float:
    right, every, (length, reference_length) = np.split(sums, [_ORDERS, 2 * _ORDERS])
    found = BLEU.compute_bleu(right.tolist(), every.tolist(), int(length), int(reference_length), smooth_method="exp")
    return float(found.score)
