"""What a study computes, computed again with loops over everything."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from tiny_study import SHORT
from torch import Tensor

from knnmt.combiner import Combiner, Observation
from knnmt.datastore import Store
from knnmt.decoding import Translator
from knnmt.memory import Memory
from knnmt.model import TorchEngine, TranslationModel
from knnmt.search import Searcher
from knnmt.study.lab import Lab
from knnmt.study.steps import Build, Fit

Pairs = Sequence[tuple[str, str]]


def store_of(lab: Lab, build: Build) -> Store:
    return Store.open(lab.work.path / "stores" / build.name)


def combiner_of(lab: Lab, fit: Fit) -> Path:
    return lab.work.directory(fit) / "combiner"


def translated(model: TranslationModel, sources: list[str], store: Store, combiner: Combiner | None) -> list[str]:
    memory = None if combiner is None else Memory(Searcher(store), combiner)
    return list(Translator(model, memory, replace(SHORT, engine="torch")).translate(sources))


@dataclass(frozen=True)
class Rows:
    """Entries of a store in plain arrays, in the order of their ids."""

    keys: Tensor  # float64 [entries, dim]
    values: Tensor  # [entries]
    confidence: Tensor  # [entries]

    @classmethod
    def of(cls, store: Store) -> "Rows":
        """All of them; of a view use those of the whole store, and `without`."""
        columns = [
            np.concatenate([np.asarray(getattr(segment, name)) for segment in store.segments])
            for name in ("keys", "values", "confidence")
        ]
        keys, values, confidence = map(torch.from_numpy, columns)
        return cls(keys.double(), values.long(), confidence.float())

    def __len__(self) -> int:
        return len(self.values)

    def without(self, first: float, last: float) -> "Rows":
        """Without the entries between two shares of the ranking by confidence, highest first."""
        ranked = sorted(range(len(self)), key=lambda row: (-float(self.confidence[row]), row))
        gone = set(ranked[round(first * len(self)) : round(last * len(self))])
        kept = [row for row in range(len(self)) if row not in gone]
        return Rows(self.keys[kept], self.values[kept], self.confidence[kept])


@dataclass(frozen=True)
class Judged:
    """As a `Judge` step gives it."""

    nll: float
    accuracy: float
    mean_lambda: float
    gold_in_k: float
    lambdas: list[tuple[float, bool, float]]  # log p_NMT of the right token, whether it was retrieved, λ


@torch.inference_mode()
def judged(model: TranslationModel, rows: Rows, combiner: Combiner, pairs: Pairs) -> Judged:
    """Every position with exhaustive search and the whole vocabulary."""
    engine = TorchEngine(model)
    sources, targets = (
        encode([pair[side] for pair in pairs])
        for side, encode in enumerate((model.codec.encode_sources, model.codec.encode_targets))
    )
    states = engine.teacher_forced(sources, targets)
    nll = right = 0.0
    lambdas = []
    for query, gold in zip(states.keys, states.tokens.tolist(), strict=True):
        log_p = engine.project(query[None]).values[0].double().log_softmax(0)
        distances = ((rows.keys - query.double()) ** 2).sum(1)
        nearest = distances.argsort(stable=True)[: combiner.k]
        values = rows.values[nearest]
        seen = Observation(
            distances=distances[nearest].float()[None],
            values=values[None],
            log_confidence=rows.confidence[nearest][None],
            log_p_values=log_p[values].float()[None],
            ids=nearest[None],
            log_p_top=log_p.topk(combiner.needs.top).values.float()[None],
        )
        combination = combiner.combine(seen)
        lam = float(combination.lam)
        p = (1 - lam) * log_p.exp()
        for value, weight in zip(values.tolist(), combination.weights[0].tolist(), strict=True):
            p[value] += lam * weight
        nll -= float(p[gold].log())
        right += bool(p[gold] >= p.max() * (1 - 1e-5))
        lambdas.append((float(log_p[gold]), gold in values.tolist(), lam))
    count = len(lambdas)
    found = sum(retrieved for _, retrieved, _ in lambdas) / count
    return Judged(nll / count, right / count, sum(lam for _, _, lam in lambdas) / count, found, lambdas)
