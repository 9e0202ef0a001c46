"""The training loop: thousands of updates on cached features, without the translation model."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils import clip_grad_norm_

from knnmt.combiner import Trained
from knnmt.errors import MethodError
from knnmt.progress import Meter, progress
from knnmt.ranges import ranges
from knnmt.training.features import Features
from knnmt.training.loss import smoothed_nll
from knnmt.training.perturbation import Batch, Perturber, perturb
from knnmt.training.recipe import Recipe

_REPORT_EVERY = 20  # updates


@dataclass(frozen=True)
class Validation:
    """A validation after `update` updates: dev loss in nats per token, mean λ, and α of the next update."""

    update: int
    nll: float
    mean_lambda: float
    alpha: float


@dataclass
class Training:
    """How training went.

    Attributes:
        history: all validations
        updates: number of updates
        interrupted: whether Ctrl-C ended it; the best weights so far are kept
    """

    history: list[Validation] = field(default_factory=list)
    updates: int = 0
    interrupted: bool = False

    @property
    def best(self) -> Validation:
        return min(self.history, key=lambda validation: validation.nll)


def train(combiner: Trained, features: Features, recipe: Recipe, perturber: Perturber | None = None) -> Training:
    """Train a combiner's network, and load the weights of the best dev loss at the end.

    With `recipe.held_out`, the best number of updates is found on sentences that do not train. Then training is
    repeated with all sentences, for this number of updates.

    Args:
        perturber: perturbs the neighbours in each update; None: no perturbation
    """
    untrained = deepcopy(combiner.network.state_dict())
    taught, held_out = _split(len(features.lengths), recipe)
    loop = _Loop(combiner, features, taught, recipe, perturber)
    loop.validating = features.sentences(held_out) if len(held_out) else features
    with _one_thread():
        _run(f"Training {combiner.method}", loop, recipe.updates)
        loop.keep_best()
        if len(held_out) and not loop.training.interrupted:
            combiner.network.load_state_dict(untrained)
            shorter = replace(recipe, updates=loop.training.best.update)
            again = _Loop(combiner, features, np.arange(len(features.lengths)), shorter, perturber)
            _run(f"Training {combiner.method} on all sentences", again, shorter.updates)
            if again.training.interrupted:
                loop.training.interrupted = True
                combiner.network.load_state_dict(loop.best_weights)
    return loop.training


def _run(title: str, loop: "_Loop", updates: int) -> None:
    with progress(title, total=updates, unit="updates") as meter:
        try:
            loop.run(meter, updates)
        except KeyboardInterrupt:
            loop.training.interrupted = True


def _split(sentences: int, recipe: Recipe) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sentences that train, and those that only validate; if there are none, those that train validate too."""
    held_out = min(round(recipe.held_out * sentences), sentences - 1)
    order = np.random.default_rng([recipe.seed, 2]).permutation(sentences)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


class _Loop:
    """Training on some sentences of the features.

    Attributes:
        validating: features to validate on; None: nothing is validated, and the last weights are kept
    """

    def __init__(
        self,
        combiner: Trained,
        features: Features,
        sentences: NDArray[np.int64],
        recipe: Recipe,
        perturber: Perturber | None,
    ) -> None:
        self.combiner, self.features, self.recipe, self.perturber = combiner, features, recipe, perturber
        self.validating: Features | None = None
        self.training = Training()
        self.best_weights: dict[str, torch.Tensor] = {}
        # two random streams, so that perturbation does not change which sentences form a batch
        batches, self.draws = (np.random.default_rng(seed) for seed in np.random.SeedSequence(recipe.seed).spawn(2))
        self.batches = _batches(features.lengths, sentences, recipe.batch_sentences, batches)
        self.optimizer = torch.optim.Adam(
            combiner.network.parameters(), lr=recipe.learning_rate, betas=recipe.adam_betas, eps=recipe.adam_eps
        )

    def run(self, meter: Meter, updates: int) -> None:
        recipe, training = self.recipe, self.training
        while training.updates < updates and not self._patience_is_over():
            alpha = self._alpha()
            for group in self.optimizer.param_groups:
                group["lr"] = recipe.rate(training.updates)
            loss, lam = self._update(alpha)
            training.updates += 1
            meter.advance(1, units=1)
            if training.updates % _REPORT_EVERY == 0:
                meter.status(f"loss {loss:.3f}, α {alpha:.2f}, λ {lam:.2f}")
            since = training.updates - recipe.validate_from
            if self.validating is not None and since >= 0 and since % recipe.validate_every == 0:
                self._validate()

    def _alpha(self) -> float:
        """The share of positions perturbed in the next update."""
        return self.perturber.how.ratio(self.training.updates) if self.perturber else 0.0

    def _update(self, alpha: float) -> tuple[float, float]:
        batch = self._batch(next(self.batches))
        seen = batch.seen
        if self.perturber and alpha > 0:
            seen = perturb(batch, alpha, self.perturber, self.draws)
        answer = self.combiner.combine(seen)
        loss = smoothed_nll(
            answer,
            seen,
            batch.tokens,
            batch.log_p,
            batch.log_p_sum,
            self.features.vocabulary,
            self.recipe.label_smoothing,
        ).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(self.combiner.network.parameters(), self.recipe.clip)
        self.optimizer.step()
        return loss.item(), answer.lam.detach().mean().item()

    def _batch(self, positions: NDArray[np.int64]) -> Batch:
        rows = torch.from_numpy(positions)
        features = self.features
        return Batch(
            rows=rows,
            seen=features.observation.take(rows, self.combiner.needs),
            tokens=features.tokens[rows],
            log_p=features.log_p[rows],
            log_p_sum=features.log_p_sum[rows],
        )

    def _validate(self) -> None:
        assert self.validating is not None
        nll, lam = self.validating.judge(self.combiner)
        if not math.isfinite(nll):
            raise MethodError("The loss is not finite; lower --learning-rate or --scale.")
        training = self.training
        if not training.history or nll < training.best.nll:
            self.best_weights = deepcopy(self.combiner.network.state_dict())
        training.history.append(Validation(training.updates, nll, lam, self._alpha()))

    def _patience_is_over(self) -> bool:
        history = self.training.history
        return bool(history) and len(history) - 1 - history.index(self.training.best) >= self.recipe.patience

    def keep_best(self) -> None:
        if not self.training.history or self.training.history[-1].update < self.training.updates:
            self._validate()  # the updates since the last validation may have improved it
        self.combiner.network.load_state_dict(self.best_weights)


def _batches(
    lengths: NDArray[np.int64], sentences: NDArray[np.int64], size: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Endless batches of the positions of `size` of the sentences, in a new random order in each epoch."""
    starts = np.cumsum(lengths) - lengths
    while True:
        order = rng.permutation(sentences)
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            yield ranges(starts[chosen], lengths[chosen])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: the tensors of an update are too small for more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
