"""Evidence: each neighbour is judged by its distance, by the model's confidence, and by the context it stands in."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from knnmt.combiner import CONTEXT, LOG_ZERO, Combination, Needs, Observation, Trained, behind_nearest, log_shares
from knnmt.combiner.trained import seeded
from knnmt.errors import MethodError
from knnmt.methods.evidence_inputs import BEHIND, KINDS, TOP, Standardised, of_neighbours, of_rows, row_size
from knnmt.methods.method import LARGEST_K, Fitting
from knnmt.methods.trained import LARGEST_LAYER, NETWORKS, TrainedMethod
from knnmt.options import option
from knnmt.training import Training, join_features, train
from knnmt.training.recipe import TRAINING

_MEASURED = 8192  # about as many rows tell the mean and deviation of the inputs


class Evidence(Trained):
    """A score for each neighbour and one for the model; one softmax over all of them.

    Args:
        k: number of neighbours
        scale: squared distances are divided by it
        hidden: size of the hidden layers
        without: parts of the context to leave out: `prefix`, `source`, `continuation`
        seed: seed of the initial weights
    """

    method = "evidence"
    network: "EvidenceNetworks"

    def __init__(self, k: int, scale: float, *, hidden: int = 32, without: Iterable[str] = (), seed: int = 0) -> None:
        self.without, self.hidden = tuple(sorted(set(without))), hidden
        if unknown := set(self.without) - CONTEXT.keys():
            raise MethodError(f"Evidence has no part {', '.join(sorted(unknown))}; it has {', '.join(CONTEXT)}.")
        if hidden < 1:
            raise MethodError("The hidden layers must have a size of 1 or more.")
        super().__init__(Needs(k, TOP, frozenset(CONTEXT) - set(self.without)), scale)
        size = sum(size for kind, size in KINDS.items() if kind not in self.without)
        self.network = seeded(lambda: EvidenceNetworks(size, row_size(k), hidden), seed)

    def prepare(self, observation: Observation) -> None:
        count = len(observation.values)
        seen = observation.take(torch.arange(0, count, max(count // _MEASURED, 1)), self.needs)
        inputs = torch.cat(list(of_neighbours(seen, self.scale).values()), 2)
        self.network.neighbours.measure(inputs[seen.exists])
        self.network.rows.measure(of_rows(seen, self.scale)[seen.exists[:, 0]])

    def _combine(self, seen: Observation) -> Combination:
        exists = seen.exists
        scores, model = self._scores(of_neighbours(seen, self.scale), of_rows(seen, self.scale))
        scores = scores.masked_fill(~exists, LOG_ZERO)
        inverse = self.network.log_inverse_temperature.exp()
        return Combination(
            log_weights=log_shares(scores, exists),
            log_odds=(scores.logsumexp(1) - model).where(exists[:, 0], LOG_ZERO),
            temperature=(self.scale / inverse).expand(len(scores)),
            c=(scores + behind_nearest(seen) / self.scale * inverse).masked_fill(~exists, 0.0),
        )

    def _scores(self, inputs: dict[str, Tensor], rows: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the neighbours [rows, K] and of the model [rows]."""
        own, model = self.network(torch.cat(list(inputs.values()), 2), rows)
        return own - inputs["distance"][:, :, BEHIND] * self.network.log_inverse_temperature.exp(), model

    @torch.inference_mode()
    def contributions(self, observation: Observation) -> dict[str, Tensor]:
        inputs, rows = of_neighbours(observation, self.scale), of_rows(observation, self.scale)
        whole, _ = self._scores(inputs, rows)
        averages = torch.split(self.network.neighbours.mean, [columns.shape[2] for columns in inputs.values()])
        found = {}
        for (kind, columns), average in zip(inputs.items(), averages, strict=True):
            without, _ = self._scores(inputs | {kind: average.expand_as(columns)}, rows)
            found[kind] = (whole - without).masked_fill(~observation.exists, 0.0)
        return found

    def options(self) -> dict[str, Any]:
        return {"k": self.k, "scale": self.scale, "hidden": self.hidden, "without": list(self.without)}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        return cls(**options)


class EvidenceNetworks(nn.Module):
    """Scores of neighbours and of the model, each by a linear path and two hidden layers."""

    def __init__(self, neighbour: int, row: int, hidden: int) -> None:
        super().__init__()
        self.neighbours, self.rows = Standardised(neighbour), Standardised(row)
        self.linear = nn.Linear(neighbour, 1, bias=False)
        self.of_neighbour = nn.Linear(neighbour, hidden)
        self.of_row = nn.Linear(row, hidden, bias=False)
        self.score = nn.Sequential(nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.model_linear = nn.Linear(row, 1)
        self.model = nn.Sequential(
            nn.Linear(row, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )
        self.log_inverse_temperature = nn.Parameter(torch.zeros(()))

    def forward(self, neighbours: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the neighbours [rows, K] and of the model [rows]."""
        neighbours, rows = self.neighbours(neighbours), self.rows(rows)
        first = self.of_neighbour(neighbours) + self.of_row(rows)[:, None]
        scores = self.linear(neighbours) + self.score(first)
        return scores.squeeze(2), (self.model_linear(rows) + self.model(rows)).squeeze(1)


@dataclass(frozen=True)
class EvidenceMethod(TrainedMethod):
    """Networks judge each neighbour by distance, confidence and context.

    Attributes:
        without: parts of the context to leave out
        stored: how many sentences of the store train first, each as if it was not in it. They are many more than most
            dev sets have, which then correct what is different in them
        dev_updates, dev_learning_rate: for the dev pairs after that
        remembered: how many sentences of the store also train as they are found when they are translated again. No
            dev pair tells that a neighbour with the same source should be followed word for word
        hidden: size of the hidden layers
    """

    name = "evidence"
    combiner = Evidence

    k: int = option(32, "Neighbours.", minimum=1, maximum=LARGEST_K)
    without: tuple[str, ...] = option(
        (), f"Parts of the context to leave out, separated by commas: {', '.join(CONTEXT)}.", choices=tuple(CONTEXT)
    )
    updates: int = option(1000, "Updates on the memory; with --stored 0, on the dev pairs.", group=TRAINING, minimum=1)
    learning_rate: float = option(5e-3, "Learning rate of Adam in these updates.", group=TRAINING, above=0)
    warmup: int = option(100, "Updates in which the learning rate rises.", group=TRAINING, minimum=0)
    decay: bool = option(True, "Let the learning rate fall to 0 at the last update.", group=TRAINING)
    held_out: float = option(
        0.15, "Share of the sentences that only validate, before all train.", group=TRAINING, minimum=0, below=1
    )
    validate_from: int = option(50, "Update of the first dev loss.", group=TRAINING, minimum=0)
    validate_every: int = option(50, "Updates between dev losses.", group=TRAINING, minimum=1)
    stored: int = option(
        2000,
        "Sentences of the store that train first, each as if it was not in it; 0: none.",
        group=TRAINING,
        minimum=0,
    )
    dev_updates: int = option(300, "Maximum number of updates on dev pairs after that.", group=TRAINING, minimum=1)
    dev_learning_rate: float = option(2e-3, "Learning rate in these updates.", group=TRAINING, above=0)
    remembered: int = option(
        100, "Sentences of the store that also train, so that what is stored comes back.", group=TRAINING, minimum=0
    )
    hidden: int = option(32, "Size of the hidden layers.", group=NETWORKS, minimum=1, maximum=LARGEST_LAYER)

    def untrained(self, scale: float) -> Evidence:
        return Evidence(self.k, scale, hidden=self.hidden, without=self.without, seed=self.seed)

    def train(self, combiner: Trained, fitting: Fitting) -> Training:
        """On the memory first, if it may train, then on the dev pairs; one of both is enough."""
        again = [fitting.again(self.remembered).narrowed(combiner.needs)] if self.remembered else []
        own = join_features([fitting.features.narrowed(combiner.needs), *again])
        if fitting.stored is None or not self.stored:
            return train(combiner, own, self)
        memory = join_features([fitting.stored(self.stored).narrowed(combiner.needs), *again])
        first = train(combiner, memory, replace(self, held_out=0.0, validate_from=self.updates))
        if first.interrupted:
            return first
        updates = self.dev_updates
        return train(
            combiner, own, replace(self, updates=updates, learning_rate=self.dev_learning_rate, warmup=updates // 10)
        )

    def training_record(self) -> dict[str, Any]:
        names = ("stored", "dev_updates", "dev_learning_rate", "remembered")
        return super().training_record() | {name: getattr(self, name) for name in names}
