"""Features on disk, and features that are mixed from several memories."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sentences import SENTENCES
from tolerances import NLL
from worlds import load, make_store

from knnmt.combiner import Needs, Observation
from knnmt.corpus import Pair
from knnmt.errors import StoreError
from knnmt.methods import Robust
from knnmt.model import TorchEngine
from knnmt.search import Searcher
from knnmt.training import Features, collect_features, join_features, load_features, mix_features, save_features

K = 3


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory, family_directory: Callable[[str], Path]) -> Features:
    model = load("marian", family_directory("marian"))
    store = make_store(tmp_path_factory.mktemp("saving") / "store", model)
    long = Pair("Haus " * 500, "house", "dev", 9)
    pairs = [Pair(source, target, "dev", i) for i, (source, target) in enumerate(SENTENCES[:8])]
    return collect_features(TorchEngine(model), Searcher(store), [*pairs, long], Needs(K, top=2), keep_queries=True)


def check_same(one: Features, other: Features) -> None:
    columns, others = one.observation.columns(), other.observation.columns()
    assert columns.keys() == others.keys()
    for name, column in columns.items():
        assert column.dtype == others[name].dtype
        assert torch.equal(column, others[name]), name
    for name in ("tokens", "log_p", "log_p_sum"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.lengths, other.lengths)
    assert one.lengths.dtype == other.lengths.dtype
    assert (one.vocabulary, one.dim, one.skipped) == (other.vocabulary, other.dim, other.skipped)


def test_saved_and_loaded_they_are_the_same(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "features.safetensors"
    save_features(features, path)
    loaded = load_features(path)
    check_same(features, loaded)
    assert features.skipped == 1
    assert features.queries is not None
    assert loaded.queries is None, "only what every fit needs"
    robust = Robust(K, 2.0, top=2, seed=1)
    assert loaded.judge(robust) == pytest.approx(features.judge(robust), abs=NLL)
    assert [path.name for path in tmp_path.iterdir()] == ["features.safetensors"]


def test_missing_neighbours_and_context_are_kept(features: Features, tmp_path: Path) -> None:
    seen = features.observation
    distances = seen.distances.clone()
    distances[::2, 1:] = torch.inf
    past = torch.arange(distances.numel()).view_as(distances)
    changed = replace(features, observation=replace(seen, distances=distances, matching_past=past))
    save_features(changed, tmp_path / "features.safetensors")
    check_same(changed, load_features(tmp_path / "features.safetensors"))


def test_a_view_of_columns_can_be_saved(features: Features, tmp_path: Path) -> None:
    """Columns that are not contiguous in memory, such as the first few of more neighbours."""
    fewer = replace(features, observation=features.observation.take(slice(None), Needs(2, top=1)))
    assert not fewer.observation.distances.is_contiguous()
    save_features(fewer, tmp_path / "features.safetensors")
    check_same(fewer, load_features(tmp_path / "features.safetensors"))


def test_what_was_there_is_replaced_as_a_whole(
    features: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "features.safetensors"
    save_features(features, path)
    before = path.read_bytes()

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(StoreError, match="No space left on device"):
            save_features(replace(features, dim=7), path)
    assert path.read_bytes() == before
    save_features(replace(features, dim=7), path)
    assert load_features(path).dim == 7


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "text"])
def test_damaged_files(features: Features, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "features.safetensors"
    save_features(features, path)
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "cut": content[:-9], "text": b"some words, and some more of them"}[damage])
    with pytest.raises(StoreError, match=r"cannot be read; remove the file and collect them again$"):
        load_features(path)


def marked(features: Features, part: int) -> Features:
    """The same positions in another memory: every column of the neighbours says which."""
    seen = features.observation
    columns = {name: torch.full_like(column, part) for name, column in seen.by_neighbour().items()}
    return replace(features, observation=Observation(**columns, log_p_top=seen.log_p_top))


def test_each_sentence_is_taken_from_one_memory(features: Features) -> None:
    parts = [marked(features, part) for part in range(3)]
    mixed = mix_features(parts, seed=4)
    assert mixed.queries is None, "they would be the first part's; nobody may read keys back with them"
    check_same(replace(mixed, observation=features.observation), replace(features, queries=None))
    start, chosen = 0, []
    for length in mixed.lengths.tolist():
        rows = slice(start, start + length)
        start += length
        found = {
            float(value) for column in mixed.observation.by_neighbour().values() for value in column[rows].flatten()
        }
        assert len(found) == 1, "all columns, and the whole sentence"
        chosen.append(found.pop())
    assert set(chosen) == {0.0, 1.0, 2.0}, "of eight sentences"
    assert torch.equal(mixed.observation.log_p_top, features.observation.log_p_top)


def test_a_mix_depends_on_the_seed_alone(features: Features) -> None:
    parts = [marked(features, part) for part in range(3)]
    one, again, other = (mix_features(parts, seed) for seed in (1, 1, 2))
    check_same(one, again)
    assert not torch.equal(one.observation.ids, other.observation.ids)
    check_same(mix_features(parts[:1], 1), replace(parts[0], queries=None))
    assert all(torch.equal(part.observation.ids, marked(features, n).observation.ids) for n, part in enumerate(parts))


def test_parts_that_do_not_belong_together(features: Features) -> None:
    """Other pairs, or fewer neighbours: the rows of one would stand beside tokens of another."""
    fewer = replace(features, observation=features.observation.take(slice(None), Needs(2, top=2)))
    swapped = replace(features, tokens=features.tokens.flip(0))
    for other in (fewer, swapped):
        with pytest.raises(ValueError, match="the same pairs and number of neighbours"):
            mix_features([features, other], seed=1)


def test_joined_and_taken_apart(features: Features) -> None:
    joined = join_features([features, marked(features, 3)])
    count = len(features.lengths)
    check_same(joined.sentences(np.arange(count)), replace(features, queries=None))
    check_same(joined.sentences(np.arange(count, 2 * count)), replace(marked(features, 3), queries=None))
    start = int(features.lengths[:2].sum())
    rows = slice(start, start + int(features.lengths[2]))
    one = features.sentences(np.array([2]))
    assert one.lengths.tolist() == [features.lengths[2]]
    assert torch.equal(one.tokens, features.tokens[rows])
    assert torch.equal(one.observation.ids, features.observation.ids[rows])
    if features.queries is not None:
        assert one.queries is not None
        assert torch.equal(one.queries, features.queries[rows])


def test_narrowed(features: Features) -> None:
    narrow = features.narrowed(Needs(2, top=1))
    assert (narrow.k, narrow.observation.log_p_top.shape[1]) == (2, 1)
    assert torch.equal(narrow.observation.ids, features.observation.ids[:, :2])
    assert narrow.observation.columns().keys() <= features.observation.columns().keys()
