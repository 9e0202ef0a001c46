"""The training loop of fine-tuning."""

import math
import time
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from knnmt.errors import FinetuneError
from knnmt.finetuning.checkpoint import Checkpoint, Progress
from knnmt.finetuning.loss import smoothed_loss
from knnmt.finetuning.recipe import FinetuneRecipe
from knnmt.finetuning.report import Validation, best_of
from knnmt.finetuning.sentences import Sentences
from knnmt.model import TorchEngine, TranslationModel
from knnmt.progress import Meter


class Clock:
    """CPU and wall time since it was made, and of the runs before it."""

    def __init__(self) -> None:
        self.cpu, self.wall = -time.process_time(), -time.monotonic()

    def add(self, cpu: float, wall: float) -> None:
        self.cpu += cpu
        self.wall += wall

    @property
    def cpu_seconds(self) -> float:
        return self.cpu + time.process_time()

    @property
    def wall_seconds(self) -> float:
        return self.wall + time.monotonic()


def trainable(model: Any) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name; tied ones once.

    Sinusoidal positions are parameters in some families, but they are not learnt and Marian does not save them.
    """
    for module in model.modules():
        if "Sinusoidal" in type(module).__name__:
            module.requires_grad_(False)
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


class Trainer:
    """Updates a model's trainable parameters, and validates and saves in between.

    Args:
        model: whose parameters are trained in place
        trained: those of them that are, by name
        clock: counts the budget
    """

    def __init__(
        self,
        model: TranslationModel,
        trained: dict[str, nn.Parameter],
        train: Sentences,
        dev: Sentences,
        recipe: FinetuneRecipe,
        checkpoint: Checkpoint,
        clock: Clock,
    ) -> None:
        self.model, self.trained, self.recipe = model, trained, recipe
        self.train, self.dev = train, dev
        self.checkpoint, self.clock = checkpoint, clock
        self.engine = TorchEngine(model)
        self.optimizer = _optimizer(trained, recipe)
        self.progress = Progress("")
        # M2M100 and NLLB drop whole layers at random, once in a while all that have adapters
        for module in model.hf.modules():
            if hasattr(module, "layerdrop"):
                module.layerdrop = 0.0

    def run(self, run: str, meter: Meter) -> str:
        """Train until it is over; the best weights are in the checkpoint then. Returns why it ended."""
        saved = self.checkpoint.load(run)
        self.progress = saved or Progress(run)
        devices = [self.model.device.index or 0] if self.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            if saved:
                self.checkpoint.restore(self.trained, self.optimizer)
                self.clock.add(saved.cpu_seconds, saved.wall_seconds)
                meter.skip(saved.updates)
            else:
                self._validate(meter)
            return self._loop(meter)

    def _loop(self, meter: Meter) -> str:
        recipe, progress = self.recipe, self.progress
        batches = self.train.batches(recipe.seed, recipe.batch_tokens, progress.epoch, progress.position)
        while not (reason := self._why_over()):
            progress.epoch, progress.position, batch = next(batches)
            tokens = self._update([self.train.sources[i] for i in batch], [self.train.targets[i] for i in batch])
            meter.advance(1, units=tokens)
            if progress.updates % recipe.validate_every == 0 or self._out_of_time() or self._enough_updates():
                self._validate(meter)
        return reason

    def _why_over(self) -> str:
        """What ends the training now; empty if nothing does."""
        # A run that was resumed after its last validation is over, although loading has taken more time.
        if self._out_of_time() and self.progress.history[-1].update == self.progress.updates:
            return "budget"
        if self._enough_updates():
            return "updates"
        history = self.progress.history
        since = len(history) - 1 - history.index(best_of(history))
        return "patience" if since >= self.recipe.patience else ""

    def _out_of_time(self) -> bool:
        return self.recipe.budget_seconds is not None and self.clock.cpu_seconds >= self.recipe.budget_seconds

    def _enough_updates(self) -> bool:
        return self.recipe.max_updates is not None and self.progress.updates >= self.recipe.max_updates

    def _update(self, sources: list[list[int]], targets: list[list[int]]) -> int:
        """One update. Returns the number of target tokens."""
        recipe, progress = self.recipe, self.progress
        # dropout depends only on the number of the update, so that a resumed run goes on as if nothing had happened
        torch.manual_seed(recipe.seed * 1_000_003 + progress.updates)
        self.model.hf.train()
        states = self.engine.states_of(sources, targets)
        loss = smoothed_loss(self.model, states.hidden, states.tokens, recipe.label_smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(self.trained.values(), recipe.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate_at(progress.updates)
        self.optimizer.step()
        progress.updates += 1
        progress.tokens += len(states.tokens)
        return len(states.tokens)

    def _validate(self, meter: Meter) -> None:
        progress = self.progress
        nll = dev_nll(self.engine, self.dev)
        if not math.isfinite(nll):
            raise FinetuneError("The dev loss of fine-tuning is not finite; lower the learning rate.")
        improved = not progress.history or nll < best_of(progress.history).nll
        progress.history.append(Validation(progress.updates, nll, progress.tokens, self.clock.cpu_seconds))
        progress.cpu_seconds, progress.wall_seconds = self.clock.cpu_seconds, self.clock.wall_seconds
        self.checkpoint.save(progress, self.trained, self.optimizer, improved)
        best = best_of(progress.history)
        meter.status(f"dev NLL {nll:.3f}, best {best.nll:.3f} after {best.update} updates")


@torch.no_grad()
def dev_nll(engine: TorchEngine, sentences: Sentences) -> float:
    """The loss of a model in nats per token, end of sentence included, without dropout and smoothing."""
    engine.model.hf.eval()
    total = 0.0
    for states in engine.batches(sentences.sources, sentences.targets):
        total += float(smoothed_loss(engine.model, states.hidden, states.tokens)) * len(states.tokens)
    return total / int(sentences.targets.lengths.sum())


def _optimizer(trained: dict[str, nn.Parameter], recipe: FinetuneRecipe) -> torch.optim.AdamW:
    matrices = [each for each in trained.values() if each.ndim > 1]
    vectors = [each for each in trained.values() if each.ndim <= 1]  # biases and norms
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=recipe.rate, betas=recipe.adam_betas, fused=True
    )
