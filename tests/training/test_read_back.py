"""`--exact-perturbation`: keys read back from a store made with a small model."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from sentences import SENTENCES
from tolerances import LOG_P, STORED_LOG_P, SUM_OF_SQUARES
from torch import Tensor
from worlds import load, make_store

from knnmt.combiner import Needs
from knnmt.corpus import Pair
from knnmt.datastore import Store
from knnmt.errors import MethodError
from knnmt.model import TorchEngine, TranslationModel
from knnmt.search import Searcher
from knnmt.training import ClosedForm, Features, Perturbation, Perturber, ReadBack, collect_features
from knnmt.training.perturbation import Batch, perturb

SEARCHED, K = 8, 5  # a combiner may look at fewer neighbours than were searched for
DEV = [Pair(source, target, "dev", i) for i, (source, target) in enumerate(SENTENCES[:10])]


class World(NamedTuple):
    model: TranslationModel
    store: Store
    features: Features

    def batch(self, rows: Tensor) -> Batch:
        features = self.features
        seen = features.observation.take(rows, Needs(K))
        return Batch(rows, seen, features.tokens[rows], features.log_p[rows], features.log_p_sum[rows])

    def read_back(self, sigma: float, seed: int = 0) -> ReadBack:
        return ReadBack(sigma, np.random.default_rng(seed), self.features, self.store, TorchEngine(self.model))


def make(path: Path, model: TranslationModel, sentences: list[tuple[str, str]]) -> World:
    store = make_store(path, model, sentences)
    return World(
        model, store, collect_features(TorchEngine(model), Searcher(store), DEV, Needs(SEARCHED), keep_queries=True)
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, family_directory: Callable[[str], Path]) -> World:
    model = load("marian", family_directory("marian"))
    return make(tmp_path_factory.mktemp("read_back") / "store", model, SENTENCES[10:])


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory, world: World) -> World:
    """A store with fewer pairs than neighbours are asked for."""
    return make(tmp_path_factory.mktemp("read_back") / "few", world.model, [("Ja.", "I")])


def shuffled(world: World) -> tuple[Batch, Tensor]:
    """Rows of a batch are not the features' own, and those asked for are not all of the batch."""
    order = torch.from_numpy(np.random.default_rng(4).permutation(len(world.features)))
    return world.batch(order[:80]), torch.arange(0, 80, 3)


def test_without_noise_it_gives_what_is_stored(world: World) -> None:
    """Up to the rounding of keys to half precision, which the stored confidence was taken before."""
    batch, at = shuffled(world)
    noise = world.read_back(0.0)
    distances, log_p = noise.on_keys(batch, at)
    torch.testing.assert_close(distances, batch.seen.distances[at], rtol=SUM_OF_SQUARES, atol=SUM_OF_SQUARES)
    torch.testing.assert_close(log_p, batch.seen.log_confidence[at], rtol=0, atol=STORED_LOG_P)
    assert batch.seen.log_confidence[at].std() > 1, "pairs differ in confidence"
    distances, log_p = noise.on_queries(batch, at)
    assert distances.tolist() == [0] * len(at)
    torch.testing.assert_close(log_p, batch.log_p[at], rtol=0, atol=LOG_P)


def test_the_noise_of_the_recipe_hardly_changes_what_the_model_thinks(world: World) -> None:
    """Why the stored log p may be kept: measured 0.06 at most and 0.008 on average for keys, 0.008 for queries."""
    rows = torch.arange(len(world.features))
    batch = world.batch(rows)
    noise = world.read_back(Perturbation().sigma)
    of_keys = (noise.on_keys(batch, rows)[1] - batch.seen.log_confidence).abs()
    assert of_keys.max() < 0.15
    assert of_keys.mean() < 0.02
    of_queries = (noise.on_queries(batch, rows)[1] - batch.log_p).abs()
    assert of_queries.max() < 0.03
    assert of_queries.mean() > 1e-4, "it is the noisy key that is projected"
    loud = (world.read_back(1.0).on_keys(batch, rows)[1] - batch.seen.log_confidence).abs()
    assert loud.mean() > 20 * of_keys.mean()


def kolmogorov_smirnov(one: np.ndarray, other: np.ndarray) -> float:
    places = np.concatenate([one, other])
    below = [np.searchsorted(np.sort(sample), places, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


@pytest.mark.parametrize("position", [3, 60])
def test_distances_are_distributed_as_the_closed_form_says(world: World, position: int) -> None:
    samples, sigma = 2500, 0.8
    batch, at = world.batch(torch.full((samples,), position)), torch.arange(samples)
    exact, closed = world.read_back(sigma), ClosedForm(sigma, world.features.dim, np.random.default_rng(1))
    gap = 1.95 * math.sqrt(2 / samples)
    one, other = exact.on_keys(batch, at)[0].numpy(), closed.on_keys(batch, at)[0].numpy()
    for k in range(K):
        assert kolmogorov_smirnov(one[:, k], other[:, k]) < gap
        assert one[:, k].mean() == pytest.approx(other[:, k].mean(), rel=0.03)
    assert np.abs(np.corrcoef(one.T) - np.eye(K)).max() < 0.1, "each key has noise of its own"
    one, other = exact.on_queries(batch, at)[0].numpy(), closed.on_queries(batch, at)[0].numpy()
    assert kolmogorov_smirnov(one, other) < gap


def test_missing_neighbours_stay_missing(few: World) -> None:
    rows = torch.arange(len(few.features))
    batch = few.batch(rows)
    there = batch.seen.exists
    assert 0 < few.store.entry_count < K
    distances, log_p = few.read_back(0.3).on_keys(batch, rows)
    assert torch.equal(torch.isfinite(distances), there)
    assert torch.equal(log_p[~there], batch.seen.log_confidence[~there])
    assert (log_p[there] != batch.seen.log_confidence[there]).any()


def test_it_serves_perturbation(few: World, world: World) -> None:
    """Everything perturbed, with keys of the store itself: sorted, finite, gold everywhere."""
    for each in (few, world):
        batch = each.batch(torch.arange(len(each.features)))
        result = perturb(batch, 1.0, Perturber(Perturbation(), each.read_back(0.01)), np.random.default_rng(2))
        assert ((result.values == batch.tokens[:, None]) & result.exists).any(1).all()
        assert (result.distances.diff(dim=1).nan_to_num(0) >= 0).all()
        assert torch.isfinite(result.log_confidence).all()
        assert not result.distances.is_inference(), "a network can learn from it"


def test_keys_that_do_not_enter_the_projection_are_refused(
    tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    model = load("marian", family_directory("marian"), key_layer="ffn_input")
    other = make(tmp_path / "store", model, SENTENCES[10:12])
    with pytest.raises(MethodError, match=r"ffn_input.*leave out --exact-perturbation"):
        other.read_back(0.01)
