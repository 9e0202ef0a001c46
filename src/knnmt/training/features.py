"""Features in memory: combiners are fitted and evaluated on them without running the model or the search again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knnmt.combiner import Combiner, Needs, Observation
from knnmt.memory import Mixture
from knnmt.ranges import ranges

_ROWS = 8192  # rows combined at once; a combiner may make some hundred numbers of each neighbour


@dataclass(frozen=True)
class Features:
    """Every target position of a set of pairs, sentence after sentence: the neighbours found, and the gold token.

    Attributes:
        observation: what a combiner sees  # [positions, …]
        tokens: the gold tokens  # [positions]
        log_p: their log p_NMT  # [positions]
        log_p_sum: Σ log p_NMT over the vocabulary, for label smoothing  # [positions]
        lengths: how many positions each sentence has  # [sentences]
        vocabulary: size of the vocabulary
        dim: size of a key
        skipped: number of pairs left out because they are too long for the model
        queries: the queries of the search; only for perturbation that reads keys back  # [positions, dim]
    """

    observation: Observation
    tokens: Tensor
    log_p: Tensor
    log_p_sum: Tensor
    lengths: NDArray[np.int64]
    vocabulary: int
    dim: int
    skipped: int = 0
    queries: Tensor | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def k(self) -> int:
        """Maximum number of neighbours per position."""
        return self.observation.distances.shape[1]

    @property
    def base_nll(self) -> float:
        """NLL of the model alone: nats per target token, end of sentence included."""
        return float(-self.log_p.double().mean())

    def gold_in_k(self, k: int) -> float:
        """The share of positions whose gold token is among the k nearest."""
        found = self.observation.values[:, :k] == self.tokens[:, None]
        return float((found & self.observation.exists[:, :k]).any(1).double().mean())

    @property
    def median_nearest(self) -> float:
        """The median squared distance to the nearest neighbour, over positions that have one."""
        nearest = self.observation.distances[:, 0]
        return float(nearest[torch.isfinite(nearest)].median())

    def sentences(self, chosen: NDArray[np.int64]) -> "Features":
        """The features of some sentences."""
        starts = np.cumsum(self.lengths) - self.lengths
        rows = torch.from_numpy(ranges(starts[chosen], self.lengths[chosen]))
        seen = {name: column[rows] for name, column in self.observation.columns().items()}
        return replace(
            self,
            observation=Observation(**seen),
            tokens=self.tokens[rows],
            log_p=self.log_p[rows],
            log_p_sum=self.log_p_sum[rows],
            lengths=self.lengths[chosen],
            queries=None if self.queries is None else self.queries[rows],
        )

    def narrowed(self, needs: Needs) -> "Features":
        """What a combiner with these needs is shown, without the rest."""
        return replace(self, observation=self.observation.take(slice(None), needs))

    def skipping(self, above: float) -> "Features":
        """A copy without neighbours at positions where the model's highest probability is above `above`."""
        seen = self.observation
        sure = seen.log_p_top[:, :1].exp() > above
        nothing = replace(seen.without_context(sure), distances=seen.distances.masked_fill(sure, torch.inf))
        return replace(self, observation=nothing)

    @torch.inference_mode()
    def judge(self, combiner: Combiner) -> tuple[float, float]:
        """NLL of the mixture, in nats per token, and mean λ."""
        nll = lam = 0.0
        for rows, mixture in self.mixtures(combiner):
            nll -= float(mixture.log_p(self.tokens[rows], self.log_p[rows]).double().sum())
            lam += float(mixture.combination.lam.double().sum())
        return nll / len(self), lam / len(self)

    @torch.inference_mode()
    def lambdas(self, combiner: Combiner) -> Tensor:
        """λ at every position.  # [positions]"""
        return torch.cat([mixture.combination.lam for _, mixture in self.mixtures(combiner)])

    def mixtures(self, combiner: Combiner) -> Iterator[tuple[slice, Mixture]]:
        """The mixtures that a combiner gives for the features, in blocks of rows."""
        for start in range(0, len(self), _ROWS):
            rows = slice(start, start + _ROWS)
            seen = self.observation.take(rows, combiner.needs)
            yield rows, Mixture(seen, combiner.combine(seen))


def join_features(parts: Sequence[Features]) -> Features:
    """The features of several sets of pairs, one after the other; without queries."""
    return replace(
        parts[0],
        observation=Observation.concatenate([part.observation for part in parts]),
        tokens=torch.cat([part.tokens for part in parts]),
        log_p=torch.cat([part.log_p for part in parts]),
        log_p_sum=torch.cat([part.log_p_sum for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        queries=None,
    )


def mix_features(parts: Sequence[Features], seed: int) -> Features:
    """Features of the same pairs in several memories: all positions of a sentence from one part, drawn at random."""
    if any(each.k != parts[0].k or not torch.equal(each.tokens, parts[0].tokens) for each in parts):
        raise ValueError("features can be mixed if they are of the same pairs and number of neighbours")
    chosen = np.random.default_rng(seed).integers(len(parts), size=len(parts[0].lengths))  # [sentences]
    part = torch.from_numpy(np.repeat(chosen, parts[0].lengths))  # [positions]
    columns = [each.observation.columns() for each in parts]
    mixed = {name: column.clone() for name, column in columns[0].items()}
    for number, others in enumerate(columns[1:], start=1):
        rows = part == number
        for name, column in mixed.items():
            column[rows] = others[name][rows]
    return replace(parts[0], observation=Observation(**mixed), queries=None)
