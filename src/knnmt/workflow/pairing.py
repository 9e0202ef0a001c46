"""Check that a corpus fits the model: its sides are in the right order, and its lines translate each other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knnmt.corpus import Pair, normalise
from knnmt.errors import CorpusError
from knnmt.model import Engine

# Standard deviations of a mean difference (docs/corpora.md has what was measured).
_WRONG_ORDER, _TOGETHER = -3.0, 4.0
_FEW, _CLEAR = 8, 5.0  # this few pairs are enough if both results are clear; otherwise the whole sample decides
_FEWEST_IN_ORDER, _FEWEST_TOGETHER = 4, 12  # with fewer pairs, chance may look like evidence
_SAME_TEXT = 0.8  # no translation has such a share of pairs with two equal sides
_LONGEST = 64  # tokens of a sentence that are used; these are enough

_FORCE = "or use --force if it is right as it is"

Tokens = list[list[int]]


def check_pairing(engine: Engine, samples: Mapping[str, Sequence[Pair]]) -> None:
    """Refuse files that do not fit the model, judged by its likelihood of a sample of each.

    The likelihood of the targets must not be higher with both sides swapped, and it must be higher than with the
    sources of the lines before and after.
    """
    for name, pairs in samples.items():
        _check(engine, name, pairs)


@dataclass(frozen=True)
class Evidence:
    """A model's likelihood of a sample of pairs compared with that of wrong pairs, in standard deviations of the mean.

    Attributes:
        order: how much likelier the targets are than with both sides swapped
        together: how much likelier they are than with the sources of the lines before or after; the smaller of both
    """

    order: float
    together: float


def evidence(engine: Engine, pairs: Sequence[Pair]) -> Evidence:
    """The evidence of a sample of at least two pairs."""
    first, second = [pair.source for pair in pairs], [pair.target for pair in pairs]
    sources, targets = _encode(engine, first, second)
    given = _nll(engine, sources, targets)
    swapped = _nll(engine, *_encode(engine, second, first))
    shifted = [_nll(engine, sources[by:] + sources[:by], targets) for by in (1, -1)]
    return Evidence(_deviations(swapped - given), min(_deviations(others - given) for others in shifted))


def _check(engine: Engine, name: str, pairs: Sequence[Pair]) -> None:
    if len(pairs) < _FEWEST_IN_ORDER:
        return
    if np.mean([normalise(pair.source) == normalise(pair.target) for pair in pairs]) > _SAME_TEXT:
        raise CorpusError(f"Both sides of {name} are the same text: give translations, {_FORCE}.")
    found = evidence(engine, pairs[:_FEW])
    if min(found.order, found.together) < _CLEAR and len(pairs) > _FEW:
        found = evidence(engine, pairs)
    if found.order < _WRONG_ORDER:
        languages = engine.model.codec.languages
        way = f"from {languages[0]} into {languages[1]}" if languages else "the other way"
        raise CorpusError(
            f"The two sides of {name} are in the wrong order, the model translates {way}: swap them, {_FORCE}."
        )
    if len(pairs) >= _FEWEST_TOGETHER and found.together < _TOGETHER:
        raise CorpusError(
            f"The two sides of {name} do not belong together: to the model, a line is no likelier beside its own "
            "partner than beside the next one. Check that each line of one translates the same line of the other, "
            f"{_FORCE}."
        )


def _encode(engine: Engine, sources: list[str], targets: list[str]) -> tuple[Tokens, Tokens]:
    codec = engine.model.codec
    longest = min(_LONGEST, codec.max_length)
    encoded = codec.encode_sources(sources), codec.encode_targets(targets)
    return [ids[:longest] for ids in encoded[0]], [ids[:longest] for ids in encoded[1]]


def _nll(engine: Engine, sources: Tokens, targets: Tokens) -> NDArray[np.float64]:
    """NLL of each target given its source, in nats per token."""
    nll = np.empty(len(targets))
    for states in engine.batches(sources, targets):
        starts = np.cumsum(states.lengths) - states.lengths
        nll[states.sentences] = -np.add.reduceat(engine.log_p(states).double().cpu().numpy(), starts) / states.lengths
    return nll


def _deviations(differences: NDArray[np.float64]) -> float:
    """How many standard deviations of a mean the mean lies above 0."""
    deviation = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    return float(differences.mean()) / max(deviation, 1e-9)
