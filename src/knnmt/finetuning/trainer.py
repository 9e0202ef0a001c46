"""The training loop of fine-tuning."""

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from knnmt.errors import FinetuneError
from knnmt.finetuning.checkpoint import Checkpoint, Progress
from knnmt.finetuning.lora import add_adapters
from knnmt.finetuning.loss import smoothed_loss
from knnmt.finetuning.recipe import FinetuneRecipe
from knnmt.finetuning.report import Validation, best_of, failures
from knnmt.finetuning.sentences import Sentences
from knnmt.model import TorchEngine, TranslationModel
from knnmt.progress import Meter


def trainable(model: Any) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name; tied ones once.

    Sinusoidal positions are parameters of Marian and FSMT, but not learnt: Marian does not save them, and FSMT computes
    them again for longer sentences.
    """
    for module in model.modules():
        if "Sinusoidal" in type(module).__name__:
            module.requires_grad_(False)
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


class Trainer:
    """Updates a model's trainable parameters, and validates and saves in between.

    Args:
        model: trained in place
        train, dev: sentence pairs
        recipe: hyperparameters and when to stop
        checkpoint: where the state is saved
        began: the process's CPU time when the run began

    Attributes:
        trained: the parameters that are trained, by name
        progress: how far the training is
    """

    def __init__(
        self,
        model: TranslationModel,
        train: Sentences,
        dev: Sentences,
        recipe: FinetuneRecipe,
        checkpoint: Checkpoint,
        began: float,
    ) -> None:
        self.model, self.train, self.dev, self.recipe = model, train, dev, recipe
        self.checkpoint, self.began = checkpoint, began
        self.engine = TorchEngine(model)
        self.adapted = add_adapters(model.hf, recipe) if recipe.method == "lora" else None
        self.trained = trainable(model.hf)
        self.optimizer = torch.optim.Adam(self.trained.values(), lr=recipe.rate, betas=(0.9, 0.98), fused=True)
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
                self.began -= saved.cpu_seconds
                meter.skip(saved.updates)
            else:
                self._validate(meter)
            return self._loop(meter)

    def keep_best(self) -> int:
        """Give the model the best weights, without adapters. Returns the bytes of what was trained, as a file."""
        size = self.checkpoint.load_best(self.trained)
        if self.adapted is not None:
            self.adapted.merge_and_unload()
        self.model.hf.eval()
        return size

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
        history = self.progress.history
        # A run that was resumed after its last validation is over, although loading has taken more time.
        if self._out_of_time() and history[-1].update == self.progress.updates:
            return "budget"
        if self._enough_updates():
            return "updates"
        since = len(history) - 1 - history.index(best_of(history))
        return "patience" if since >= self.recipe.patience else ""

    def _out_of_time(self) -> bool:
        """Whether the budget has no room for more than one validation."""
        budget = self.recipe.budget_seconds
        return budget is not None and self._cpu_seconds() + self.progress.validation_seconds >= budget

    def _cpu_seconds(self) -> float:
        """Of this run and of those that it resumes."""
        return time.process_time() - self.began

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
            group["lr"] = recipe.rate_at(progress.updates, failures(progress.history))
        self.optimizer.step()
        progress.updates += 1
        progress.tokens += len(states.tokens)
        return len(states.tokens)

    def _validate(self, meter: Meter) -> None:
        progress, start = self.progress, self._cpu_seconds()
        nll = dev_nll(self.engine, self.dev.sources, self.dev.targets)
        if not math.isfinite(nll):
            raise FinetuneError("The dev loss of fine-tuning is not finite; lower the learning rate.")
        improved = not progress.history or nll < best_of(progress.history).nll
        progress.cpu_seconds = self._cpu_seconds()
        progress.validation_seconds = progress.cpu_seconds - start
        progress.history.append(Validation(progress.updates, nll, progress.tokens, progress.cpu_seconds))
        self.checkpoint.save(progress, self.trained, self.optimizer, improved)
        best = best_of(progress.history)
        meter.status(f"dev NLL {nll:.3f}, best {best.nll:.3f} after {best.update} updates")


@torch.no_grad()
def dev_nll(engine: TorchEngine, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> float:
    """The loss of a model in nats per token, end of sentence included, without dropout and smoothing."""
    engine.model.hf.eval()
    total = tokens = 0.0
    for states in engine.batches(sources, targets):
        total += float(smoothed_loss(engine.model, states.hidden, states.tokens)) * len(states.tokens)
        tokens += len(states.tokens)
    return total / tokens
