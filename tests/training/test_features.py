"""Cached features against the plain model and exhaustive search, position by position."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sentences import SENTENCES
from tolerances import DISTANCE, LOG_P, NLL, SHARE
from worlds import load, make_store

from knnmt.combiner import Needs
from knnmt.corpus import Pair
from knnmt.methods import Vanilla
from knnmt.model import TorchEngine, TranslationModel
from knnmt.search import Searcher
from knnmt.training import Features, collect_features

K = 5
DEV = [Pair(source, target, "dev", i) for i, (source, target) in enumerate(SENTENCES[:10])]


@pytest.mark.parametrize("family", ["marian", "fsmt-separate", "nllb", "t5"])
def test_features_agree_with_loops(family: str, tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    model = load(family, family_directory(family))
    store = make_store(tmp_path / "store", model)
    features = collect_features(TorchEngine(model), Searcher(store), DEV, Needs(K, top=3))
    keys = np.concatenate([segment.keys for segment in store.segments]).astype(np.float64)
    stored = np.concatenate([segment.values for segment in store.segments])
    sentences = _naive(model, keys, stored)
    rows = [row for target in _targets(features) for row in sentences[target]]
    assert len(features) == len(rows) == sum(map(len, sentences.values()))
    found = 0
    total = 0.0
    for index, (log_p, token, distances, values, mixed) in enumerate(rows):
        assert features.log_p[index].item() == pytest.approx(log_p, abs=LOG_P)
        assert features.tokens[index].item() == token
        np.testing.assert_allclose(features.observation.distances[index], distances, **DISTANCE)
        assert features.observation.values[index].tolist() == values
        found += token in values
        total += mixed
    assert features.gold_in_k(K) == pytest.approx(found / len(rows))
    assert features.base_nll == pytest.approx(-np.mean([row[0] for row in rows]), abs=NLL)
    nll, lam = features.judge(Vanilla(K, 0.4, 7.0))
    assert nll == pytest.approx(total / len(rows), abs=NLL)
    assert lam == pytest.approx(0.4, abs=SHARE)
    assert 0 < features.gold_in_k(K) < 1
    assert features.skipped == 0


def _targets(features: Features) -> list[tuple[int, ...]]:
    """The sentences of the features, in their order."""
    ends = np.cumsum(features.lengths)
    tokens = features.tokens.tolist()
    return [tuple(tokens[end - length : end]) for end, length in zip(ends, features.lengths, strict=True)]


@torch.inference_mode()
def _naive(
    model: TranslationModel, keys: np.ndarray, stored: np.ndarray
) -> dict[tuple[int, ...], list[tuple[float, int, np.ndarray, list[int], float]]]:
    """What is expected at each position, by the sentence's target."""
    sentences = {}
    for pair in DEV:
        rows = []
        source = model.codec.encode_sources([pair.source])[0]
        target = model.codec.encode_targets([pair.target])[0]
        states = TorchEngine(model).teacher_forced([source], [target])
        logits = TorchEngine(model).project(states.hidden).values.double().numpy()
        for position, token in enumerate(target):
            query = states.keys[position].double().numpy()
            distances = ((keys - query) ** 2).sum(1)
            nearest = np.argsort(distances, kind="stable")[:K]
            p = np.exp(logits[position] - logits[position].max())
            p /= p.sum()
            weights = np.exp(-(distances[nearest] - distances[nearest].min()) / 7.0)
            weights /= weights.sum()
            p_knn = sum(w for w, v in zip(weights, stored[nearest], strict=True) if v == token)
            mixed = -np.log(0.4 * p_knn + 0.6 * p[token])
            rows.append((float(np.log(p[token])), token, distances[nearest], stored[nearest].tolist(), mixed))
        sentences[tuple(target)] = rows
    return sentences


def test_over_long_pairs_are_left_out_and_counted(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    model = load("marian", family_directory("marian"))
    store = make_store(tmp_path / "store", model)
    long = Pair("Haus " * 500, "house", "dev", 1)
    features = collect_features(TorchEngine(model), Searcher(store), [DEV[0], long, DEV[1]], Needs(2))
    assert features.skipped == 1
    assert len(features) == sum(map(len, model.codec.encode_targets([DEV[0].target, DEV[1].target])))
    assert torch.isfinite(features.log_p).all()
