"""The training loop on worlds made by hand, where it is known how far the neighbours can be trusted."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tolerances import NLL
from torch import Tensor
from worlds import interrupt_after, observed

from knnmt.combiner import Trained
from knnmt.methods import Adaptive, Robust
from knnmt.training import ClosedForm, Features, Perturbation, Perturber, Recipe, train, trainer
from knnmt.training.perturbation import Batch

K, VOCABULARY, DIM, SENTENCES = 4, 40, 8, 70
QUICK = Recipe(updates=250, learning_rate=0.02, validate_from=100, validate_every=50)
ALWAYS = Perturbation(decline=False)
SHORT = Recipe(updates=25, learning_rate=0.01, validate_from=10, validate_every=6)


def make_world(sure: Callable[[Tensor], Tensor], right: Callable[[Tensor], Tensor]) -> Features:
    """Positions where the model is sure of the gold token or hardly knows it, and neighbours right or wrong there.

    Distances and the number of distinct values tell nothing of either.

    Args:
        sure, right: from the positions' coin tosses to masks
    """
    random = np.random.default_rng(7)
    lengths = random.integers(1, 9, SENTENCES)
    rows = int(lengths.sum())
    tokens = torch.from_numpy(random.integers(0, VOCABULARY, rows))
    coins = torch.from_numpy(random.random(rows) < 0.5)
    gold = torch.where(sure(coins), 0.9, 0.05)[:, None]
    p = ((1 - gold) / (VOCABULARY - 1)).repeat(1, VOCABULARY).scatter(1, tokens[:, None], gold)
    wrong = (tokens + torch.from_numpy(random.integers(1, VOCABULARY, rows))) % VOCABULARY
    values = torch.where(right(coins), tokens, wrong)[:, None].repeat(1, K)
    return Features(
        observation=observed(
            distances=torch.from_numpy(np.sort(random.uniform(5, 15, (rows, K)), axis=1)).float(),
            values=values,
            log_confidence=torch.from_numpy(-random.exponential(size=(rows, K))).float(),
            log_p_values=p.log().gather(1, values),
            log_p_top=p.log().topk(K, dim=1).values,
        ),
        tokens=tokens,
        log_p=p.log().gather(1, tokens[:, None]).squeeze(1),
        log_p_sum=p.log().sum(1),
        lengths=lengths,
        vocabulary=VOCABULARY,
        dim=DIM,
    )


def everywhere(coins: Tensor) -> Tensor:
    return torch.ones_like(coins)


def nowhere(coins: Tensor) -> Tensor:
    return torch.zeros_like(coins)


def robust(seed: int = 1) -> Robust:
    return Robust(K, 1.0, seed=seed)


def adaptive(seed: int = 1) -> Adaptive:
    return Adaptive(K, 1.0, 10.0, seed=seed)


def closed_form(seed: int = 1) -> Perturber:
    return Perturber(Perturbation(), ClosedForm(0.01, DIM, np.random.default_rng(seed)))


def weights(combiner: Trained) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in combiner.network.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("make", [robust, adaptive])
def test_a_memory_that_is_always_right_is_trusted(make: Callable[[], Trained]) -> None:
    combiner = make()
    world = make_world(sure=nowhere, right=everywhere)
    training = train(combiner, world, QUICK)
    nll, lam = world.judge(combiner)
    assert lam > 0.9
    assert nll < world.base_nll / 5
    assert (training.best.nll, training.best.mean_lambda) == pytest.approx((nll, lam), abs=NLL)


@pytest.mark.parametrize("make", [robust, adaptive])
def test_a_memory_of_noise_is_not(make: Callable[[], Trained]) -> None:
    combiner = make()
    world = make_world(sure=nowhere, right=nowhere)
    train(combiner, world, QUICK)
    nll, lam = world.judge(combiner)
    assert lam < 0.1
    assert nll == pytest.approx(world.base_nll, abs=0.05)


def test_robust_trusts_it_where_the_model_is_unsure() -> None:
    """What the paper adds: what was found looks the same everywhere, only the model's confidence tells."""
    world = make_world(sure=lambda coins: ~coins, right=lambda coins: coins)
    unsure = world.log_p < -1
    ours, theirs = robust(), adaptive()
    train(ours, world, QUICK, closed_form())
    train(theirs, world, QUICK)
    lam = ours.combine(world.observation).lam.detach()
    assert lam[unsure].min() > 0.8
    assert lam[~unsure].max() < 0.2
    blind = theirs.combine(world.observation).lam.detach()
    assert abs(float(blind[unsure].mean() - blind[~unsure].mean())) < 0.1
    assert world.judge(ours)[0] < world.judge(theirs)[0] - 0.2


@pytest.mark.to_the_bit
def test_the_same_seed_gives_the_same_weights_to_the_bit() -> None:
    """The same code on the same shapes, and training has one thread whatever else there is."""
    world = make_world(sure=lambda coins: ~coins, right=lambda coins: coins)

    def run(first: int, recipe: Recipe, noise: int = 1) -> tuple[dict[str, Tensor], Any]:
        combiner = robust(first)
        torch.rand(1)  # what others draw does not matter
        history = train(combiner, world, recipe, closed_form(noise)).history
        return weights(combiner), history

    kept, history = run(1, SHORT)
    again, same_history = run(1, SHORT)
    assert same(kept, again)
    assert history == same_history
    for other in (run(2, SHORT), run(1, replace(SHORT, seed=2)), run(1, SHORT, noise=2)):
        assert not same(kept, other[0])
        assert history != other[1]


def test_validations() -> None:
    """At the first, then regularly, and at the end: what came after the last one may be better."""
    world = make_world(sure=nowhere, right=everywhere)
    training = train(robust(), world, SHORT, closed_form())
    assert [each.update for each in training.history] == [10, 16, 22, 25]
    assert training.updates == 25
    assert not training.interrupted
    assert [each.alpha for each in training.history] == [Perturbation().ratio(update) for update in (10, 16, 22, 25)]
    nothing_left = train(robust(), world, replace(SHORT, updates=22), closed_form())
    assert [each.update for each in nothing_left.history] == [10, 16, 22]
    unperturbed = train(robust(), world, replace(SHORT, updates=5))
    assert [(each.update, each.alpha) for each in unperturbed.history] == [(5, 0.0)], "before the first there is one"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], list[dict[str, Tensor]]]:
    """Makes up the dev losses; gives the weights that were judged."""

    def script(losses: list[float]) -> list[dict[str, Tensor]]:
        seen: list[dict[str, Tensor]] = []
        told = iter(losses)

        def judge(self: Features, combiner: Trained) -> tuple[float, float]:
            seen.append(weights(combiner))
            return next(told), 0.5

        monkeypatch.setattr(Features, "judge", judge)
        return seen

    return script


@pytest.mark.parametrize(
    ("losses", "best", "updates"),
    [
        ([5.0, 3.0, 4.0, 3.0, 3.5, 2.0], 1, 22),  # no better three times, a loss as good being no better
        ([5.0, 4.0, 4.5, 4.5, 3.0, 3.5, 3.5, 3.5], 4, 31),  # two are forgiven each time
        ([5.0, 4.0, 3.0, 2.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4], 10, 40),  # it ends with the updates
    ],
)
def test_patience_and_the_best_weights(
    judged: Callable[[list[float]], list[dict[str, Tensor]]], losses: list[float], best: int, updates: int
) -> None:
    seen = judged(losses)
    combiner = robust()
    world = make_world(sure=nowhere, right=everywhere)
    recipe = Recipe(updates=40, learning_rate=0.01, validate_from=10, validate_every=3, patience=3)
    training = train(combiner, world, recipe)
    assert training.updates == updates
    assert [each.nll for each in training.history] == losses[: len(seen)]
    assert training.best.nll == losses[best]
    assert same(weights(combiner), seen[best])
    assert best == len(seen) - 1 or not same(weights(combiner), seen[-1])


@pytest.mark.parametrize(
    ("after", "validated"), [(0, [0]), (4, [4]), (13, [10, 13]), (16, [10, 16])], ids=lambda value: str(value)
)
def test_ctrl_c_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch, after: int, validated: list[int]) -> None:
    world = make_world(sure=nowhere, right=everywhere)
    interrupt_after(monkeypatch, after)
    combiner = robust()
    training = train(combiner, world, SHORT, closed_form())
    assert training.interrupted
    assert training.updates == after
    assert [each.update for each in training.history] == validated
    assert world.judge(combiner)[0] == pytest.approx(training.best.nll, abs=NLL)


def test_ctrl_c_after_the_best_goes_back_to_it(
    judged: Callable[[list[float]], list[dict[str, Tensor]]],
) -> None:
    seen = judged([2.0, 1.0, 3.0, 4.0])

    class Impatient(ClosedForm):
        calls = 0

        def on_keys(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
            self.calls += 1
            if self.calls == 24:
                raise KeyboardInterrupt
            return super().on_keys(batch, at)

    combiner = robust()
    noise = Impatient(0.01, DIM, np.random.default_rng(1))
    training = train(combiner, make_world(nowhere, everywhere), SHORT, Perturber(ALWAYS, noise))
    assert training.interrupted
    assert [each.update for each in training.history] == [10, 16, 22, 23]
    assert same(weights(combiner), seen[1])


HELD_OUT = replace(SHORT, held_out=0.3, warmup=3, decay=True)


def test_sentences_held_out_choose_how_long_all_are_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(sure=lambda coins: ~coins, right=lambda coins: coins)
    judged: list[Features] = []
    judge = Features.judge

    def noted(self: Features, given: Trained) -> tuple[float, float]:
        judged.append(self)
        return judge(self, given)

    monkeypatch.setattr(Features, "judge", noted)
    noise, combiner = Recorder(), robust()
    training = train(combiner, world, HELD_OUT, Perturber(ALWAYS, noise))
    updates = [set(of_sentences(world, rows)) for rows in noise.updates]
    best = training.best.update
    assert [each.update for each in training.history] == [10, 16, 22, 25]
    assert len(updates) == 25 + best, "training is repeated"
    taught = set().union(*updates[:25])
    assert len(taught) == SENTENCES - 21, "a share of .3 does not train"
    others = world.sentences(np.array(sorted(set(range(SENTENCES)) - taught)))
    assert all(torch.equal(each.tokens, others.tokens) for each in judged), "and validates"
    assert set().union(*updates[25:]) == set(range(SENTENCES))

    once = replace(HELD_OUT, held_out=0.0, validate_from=1000)
    unperturbed, by_hand = robust(), robust()
    best = train(unperturbed, world, HELD_OUT).best.update
    train(by_hand, world, replace(once, updates=best))
    assert same(weights(unperturbed), weights(by_hand)), "as if nothing had been held out"


def test_ctrl_c_while_all_sentences_train_keeps_what_was_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(sure=nowhere, right=everywhere)
    interrupt_after(monkeypatch, 27)
    combiner = robust()
    training = train(combiner, world, HELD_OUT)
    assert training.interrupted
    assert [each.update for each in training.history] == [10, 16, 22, 25]
    alone = robust()
    monkeypatch.undo()
    interrupt_after(monkeypatch, 25)
    train(alone, world, HELD_OUT)
    assert same(weights(combiner), weights(alone))


def test_one_sentence_cannot_be_held_out() -> None:
    world = make_world(sure=nowhere, right=everywhere).sentences(np.array([3]))
    assert train(robust(), world, HELD_OUT).updates == 25


class Recorder(ClosedForm):
    """Notes the positions of every update, and torch's threads."""

    def __init__(self) -> None:
        super().__init__(0.01, DIM, np.random.default_rng(1))
        self.updates: list[list[int]] = []
        self.threads: set[int] = set()

    def on_keys(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        assert len(at) == len(batch), "α is 1"
        self.updates.append(batch.rows.tolist())
        self.threads.add(torch.get_num_threads())
        return super().on_keys(batch, at)


def of_sentences(features: Features, rows: list[int]) -> list[int]:
    """Which sentences the positions are, which must be whole and in order."""
    starts = np.cumsum(features.lengths) - features.lengths
    rest, found = list(rows), []
    while rest:
        sentence = int(np.searchsorted(starts, rest[0], side="right")) - 1
        whole = range(starts[sentence], starts[sentence] + features.lengths[sentence])
        assert rest[: len(whole)] == list(whole)
        found.append(sentence)
        rest = rest[len(whole) :]
    return found


def test_every_sentence_comes_once_an_epoch() -> None:
    world = make_world(sure=nowhere, right=everywhere)
    recipe = Recipe(updates=7)
    noise = Recorder()
    train(robust(), world, recipe, Perturber(ALWAYS, noise))
    updates = [of_sentences(world, rows) for rows in noise.updates]
    assert [len(each) for each in updates] == [32, 32, 6, 32, 32, 6, 32]
    epochs = [[number for each in part for number in each] for part in (updates[:3], updates[3:6])]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(SENTENCES))
    assert epochs[0] != epochs[1]
    assert epochs[0] != list(range(SENTENCES))
    for changed in (replace(ALWAYS, pseudo_pairs=False), replace(ALWAYS, sigma=0.5)):
        other = Recorder()
        train(robust(), world, recipe, Perturber(changed, other))
        assert other.updates == noise.updates, "what is perturbed does not change which sentences come together"


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_threads_are_as_before_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(sure=nowhere, right=everywhere)
    noise = Recorder()
    train(robust(), world, Recipe(updates=3), Perturber(ALWAYS, noise))
    assert noise.threads == {1}, "small tensors: a second thread only waits"
    assert torch.get_num_threads() == 2

    def fail(self: Any, alpha: float) -> tuple[float, float]:
        raise RuntimeError("a fault")

    monkeypatch.setattr(trainer._Loop, "_update", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        train(robust(), world, SHORT)
    assert torch.get_num_threads() == 2
