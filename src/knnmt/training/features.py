"""What combiners are fitted and judged by: one teacher-forced pass and one search, kept; the model is not run again."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from knnmt.combiner import Combiner, Observation, mixture_log_p, observe
from knnmt.corpus import Pair
from knnmt.errors import CorpusError
from knnmt.model import TranslationModel
from knnmt.progress import progress
from knnmt.search import Searcher

_ROWS = 65_536  # rows a combiner judges at once


@dataclass(frozen=True)
class Features:
    """Every target position of a set of pairs, in batches' order: what was found, and what the gold token is.

    Attributes:
        observation: what a combiner sees  # [positions, …]
        tokens: the gold tokens  # [positions]
        log_p: their log p_NMT  # [positions]
        skipped: pairs left out because they are longer than the model takes
    """

    observation: Observation
    tokens: Tensor
    log_p: Tensor
    skipped: int

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def base_nll(self) -> float:
        """Of the model alone: nats a target token, end of sentence included."""
        return float(-self.log_p.double().mean())

    def gold_in_k(self, k: int) -> float:
        """The share of positions whose gold token is among the k nearest."""
        found = self.observation.values[:, :k] == self.tokens[:, None]
        exists = torch.isfinite(self.observation.distances[:, :k])
        return float((found & exists).any(1).double().mean())

    @property
    def median_nearest(self) -> float:
        """The median squared distance to the nearest neighbour."""
        return float(self.observation.distances[:, 0].median())

    def judge(self, combiner: Combiner) -> tuple[float, float]:
        """NLL of the mixture and mean λ."""
        nll = lam = 0.0
        for start in range(0, len(self), _ROWS):
            rows = slice(start, start + _ROWS)
            seen = take(self.observation, rows, combiner.k)
            answer = combiner.combine(seen)
            log_p = mixture_log_p(answer, seen.values, self.tokens[rows], self.log_p[rows])
            nll -= float(log_p.double().sum())
            lam += float(answer.lam.double().sum())
        return nll / len(self), lam / len(self)


def take(observation: Observation, rows: slice, k: int) -> Observation:
    """Some rows of an observation, and their k nearest."""
    return Observation(
        distances=observation.distances[rows, :k],
        values=observation.values[rows, :k],
        log_confidence=observation.log_confidence[rows, :k],
        log_p_values=observation.log_p_values[rows, :k],
        log_p_top=observation.log_p_top[rows],
    )


@torch.inference_mode()
def collect_features(
    model: TranslationModel, searcher: Searcher, pairs: Sequence[Pair], k: int, top: int = 0
) -> Features:
    """Pass the pairs through the model and search, once. Nothing of size positions × vocabulary is kept."""
    sources = model.codec.encode_sources([pair.source for pair in pairs])
    targets = model.codec.encode_targets([pair.target for pair in pairs])
    limit = model.codec.max_length
    kept = [i for i in range(len(pairs)) if max(len(sources[i]), len(targets[i])) <= limit]
    if not kept:
        raise CorpusError(f"Every sentence of the corpus is longer than the model's {limit} tokens; give shorter ones.")
    observations: list[Observation] = []
    tokens: list[Tensor] = []
    log_p: list[Tensor] = []
    with progress("Searching for the dev tokens' neighbours", total=len(kept), unit="tokens") as meter:
        for states in model.batches([sources[i] for i in kept], [targets[i] for i in kept]):
            found = searcher.search(states.keys.float().cpu().numpy(), k)
            for start in range(0, len(states.tokens), model.chunk_rows):
                rows = slice(start, start + model.chunk_rows)
                logits = model.logits(states.hidden[rows])
                log_sum_exp = logits.float().logsumexp(1)
                observations.append(_on_cpu(observe(found[rows], logits, log_sum_exp, top)))
                gold = logits.gather(1, states.tokens[rows, None]).squeeze(1).float()
                tokens.append(states.tokens[rows].cpu())
                log_p.append((gold - log_sum_exp).cpu())
            meter.advance(len(states.sentences), units=len(states.tokens))
    return Features(_concatenate(observations), torch.cat(tokens), torch.cat(log_p), len(pairs) - len(kept))


def _on_cpu(observation: Observation) -> Observation:
    return Observation(*(getattr(observation, field.name).cpu() for field in fields(Observation)))


def _concatenate(parts: Sequence[Observation]) -> Observation:
    return Observation(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Observation)))
