"""The training: it learns, ends when it should, and goes on after a kill as if nothing had happened."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tolerances import SINGLE
from torch import Tensor
from worlds import load

from knnmt.errors import FinetuneError
from knnmt.finetuning import FinetuneReport, trainer
from knnmt.finetuning.loss import smoothed_loss
from knnmt.finetuning.trainer import Trainer

Tune = Callable[..., FinetuneReport]
KillAt = Callable[[int], None]


@pytest.mark.parametrize("family", ["marian", "fsmt"])
def test_sinusoidal_positions_are_not_trained(family: str, family_directory: Callable[[str], Path]) -> None:
    model = load(family, family_directory(family)).hf
    names = {name for name, _ in model.named_parameters()}
    assert {name for name in names if "position" in name} == names - set(trainer.trainable(model)) != set()


class Scripted:
    """Dev losses as they are told, and a clock that only updates and validations move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.losses: Iterator[float] = iter(())
        update = Trainer._update

        def timed(self_: Trainer, sources: list[list[int]], targets: list[list[int]]) -> int:
            self.seconds += 1.0
            return update(self_, sources, targets)

        monkeypatch.setattr(Trainer, "_update", timed)
        monkeypatch.setattr(trainer, "dev_nll", self.dev_nll)
        monkeypatch.setattr(time, "process_time", lambda: self.seconds)

    def dev_nll(self, *_: object) -> float:
        self.seconds += 0.5
        return next(self.losses, 1.0)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    return Scripted(monkeypatch)


@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize("family", ["marian", "fsmt"])
def test_loss_falls(tune: Tune, family: str, method: str) -> None:
    report = tune(family, method=method)
    assert [each.update for each in report.history] == [0, 5, 10]
    assert report.best.nll < report.history[0].nll - 0.1
    assert report.stopped == "updates"
    assert report.tokens == report.history[-1].tokens > 0


def test_learning_rate(
    tune: Tune, scripted: Scripted, monkeypatch: pytest.MonkeyPatch, family_directory: Callable[[str], Path]
) -> None:
    """It rises, and halves after each validation that is not the best so far. Gradients are clipped."""
    family_directory("marian")  # its making uses Adam as well
    rates, norms = [], []
    step = torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *rest: Any) -> Any:
        (group,) = self.param_groups
        rates.append(group["lr"])
        norms.append(torch.stack([each.grad.norm() for each in group["params"]]).norm().item())
        return step(self, *rest)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    scripted.losses = iter([3.0, 2.0, 2.5, 1.9, 1.9])
    tune(learning_rate=0.008, warmup=3, validate_every=2, clip=0.01)
    assert rates == [0.002, 0.004, 0.006, 0.008, 0.004, 0.004, 0.004, 0.004, 0.002, 0.002]
    assert norms == pytest.approx([0.01] * 10, rel=SINGLE)


def test_dropout_only_in_updates(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(model: Any, hidden: Tensor, *rest: Any) -> Tensor:
        seen.append((model.hf.training, hidden.requires_grad))
        assert [each.layerdrop for each in model.hf.modules() if hasattr(each, "layerdrop")] == [0.0, 0.0]
        return smoothed_loss(model, hidden, *rest)

    monkeypatch.setattr(trainer, "smoothed_loss", watched)
    tune("m2m100", max_updates=2, validate_every=2)  # which drops whole layers by default
    assert seen == [(False, False), (True, True), (True, True), (False, False)]


def weights(directory: Path) -> dict[str, Tensor]:
    return load_file(directory / "model.safetensors")


@pytest.mark.to_the_bit
def test_patience(tune: Tune, scripted: Scripted, out: Path) -> None:
    """The weights with the best dev loss are those that are saved, not the last."""
    scripted.losses = iter([3.0, 2.0, 2.5, 2.0, 1.9])
    report = tune(patience=2, max_updates=None)
    assert (report.stopped, report.updates) == ("patience", 15)
    assert (report.best.update, report.best.nll) == (5, 2.0)
    scripted.losses = iter([3.0, 2.0])
    tune(to=out.with_name("five"), max_updates=5)
    assert_same(weights(out), weights(out.with_name("five")))


def test_budget(tune: Tune, scripted: Scripted) -> None:
    """It has room for the last validation."""
    report = tune(budget_seconds=8.5, max_updates=None)
    assert report.stopped == "budget"
    assert [(each.update, each.cpu_seconds) for each in report.history] == [(0, 0.5), (5, 6.0), (7, 8.5)]
    assert report.cpu_seconds == 8.5


def test_budget_counts_what_was_used_before_a_kill(tune: Tune, scripted: Scripted, kill_at: KillAt) -> None:
    kill_at(6)
    with pytest.raises(KeyboardInterrupt):
        tune(budget_seconds=8.5, max_updates=None)
    scripted.seconds = 1000.0
    report = tune(budget_seconds=8.5, max_updates=None)
    assert [each.cpu_seconds for each in report.history] == [0.5, 6.0, 8.5]


def test_more_budget_after_a_kill(tune: Tune, scripted: Scripted, kill_at: KillAt) -> None:
    kill_at(6)
    with pytest.raises(KeyboardInterrupt):
        tune(budget_seconds=8.5, max_updates=None)
    assert tune(budget_seconds=100.0).updates == 10


def test_budget_that_is_too_small(
    tune: Tune, scripted: Scripted, out: Path, family_directory: Callable[[str], Path]
) -> None:
    report = tune(budget_seconds=0.1)
    assert (report.stopped, report.updates, report.epochs) == ("budget", 0, 0)
    assert load("marian", out).fingerprint == load("marian", family_directory("marian")).fingerprint


def test_loss_that_is_not_finite(tune: Tune, scripted: Scripted) -> None:
    scripted.losses = iter([3.0, float("nan")])
    with pytest.raises(FinetuneError, match="lower the learning rate"):
        tune()


@pytest.mark.to_the_bit
@pytest.mark.parametrize("method", ["full", "lora"])
def test_killed_and_resumed(tune: Tune, kill_at: KillAt, out: Path, method: str) -> None:
    whole = tune(to=out.with_name("whole"), method=method)
    assert whole.epochs > 1
    for number in (8, 3, 0):
        kill_at(number)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            tune(method=method)
        assert not out.exists()
    resumed = tune(method=method)
    assert not list(out.parent.glob("*.unfinished"))
    assert_same(weights(out), weights(out.with_name("whole")))
    assert [each.nll for each in resumed.history] == [each.nll for each in whole.history]
    assert (resumed.tokens, resumed.epochs, resumed.run) == (whole.tokens, whole.epochs, whole.run)


@pytest.mark.to_the_bit
def test_seed(tune: Tune, out: Path) -> None:
    first = tune(to=out.with_name("first"))
    torch.manual_seed(5)
    assert tune(to=out.with_name("second")).best.nll == first.best.nll
    assert_same(weights(out.with_name("first")), weights(out.with_name("second")))
    assert tune(to=out.with_name("third"), seed=2).best.nll != first.best.nll


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name, each in expected.items() if not torch.equal(found[name], each)] == []
