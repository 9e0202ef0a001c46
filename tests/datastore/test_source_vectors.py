"""Source vectors on disk: derived from segments, checked when they are opened."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from knnmt.datastore import SourceVectors, Store, StoreWriter, verify_files
from knnmt.errors import StoreError

SOURCES = [[5, 3, 5], [], [9], [3, 3, 3, 4, 9]]


def rows(vectors: SourceVectors) -> list[dict[int, int]]:
    ends = zip(vectors.starts[:-1].tolist(), vectors.starts[1:].tolist(), strict=True)
    pieces, counts = vectors.pieces.tolist(), vectors.counts.tolist()
    return [dict(zip(pieces[start:end], counts[start:end], strict=True)) for start, end in ends]


def test_counts() -> None:
    assert rows(SourceVectors.of(SOURCES)) == [{3: 1, 5: 2}, {}, {9: 1}, {3: 3, 4: 1, 9: 1}]
    assert rows(SourceVectors.of([[7] * 300])) == [{7: 255}], "more are not counted"
    assert rows(SourceVectors.of([])) == []


def test_parts_and_choices() -> None:
    whole = SourceVectors.of(SOURCES)
    parts = [SourceVectors.of(part) for part in (SOURCES[:2], [], SOURCES[2:])]
    assert rows(SourceVectors.concatenate(parts)) == rows(whole)
    chosen = [3, 1, 3, 0]
    assert rows(whole.take(np.array(chosen))) == [rows(whole)[number] for number in chosen]


@pytest.fixture
def store(scenario: ModuleType, tmp_path: Path) -> Store:
    """Two segments, the vectors of both."""
    scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    return add_vectors(scenario.build(tmp_path / "s", "second", scenario.SECOND))


def add_vectors(store: Store) -> Store:
    with StoreWriter(store.path, store.model) as writer:
        made = {}
        for segment in store.segments:
            made[segment.name] = writer.new_directory("sources", segment.name)
            count = segment.record.sentences
            SourceVectors.of([[number % 7, 8] for number in range(count)]).write(made[segment.name])
        return writer.commit(sources=made)


def test_what_was_written_is_read(store: Store) -> None:
    assert verify_files(store.path) == []
    for vectors, segment in zip(Store.open(store.path).source_vectors, store.segments, strict=True):
        assert rows(vectors) == [{number % 7: 1, 8: 1} for number in range(segment.record.sentences)]
    assert store.sizes()["sources"] == sum(file.stat().st_size for file in (store.path / "sources").rglob("*.npy"))
    newer = add_vectors(store)
    assert newer.manifest.sources["000001"].directory == "sources/000001.000002"


def test_vectors_leave_with_their_segment(scenario: ModuleType, store: Store) -> None:
    """The small last segment is merged with new pairs, and what was derived from it is not kept."""
    newer = scenario.build(store.path, "third", scenario.FIRST)
    assert [segment.name for segment in newer.segments] == ["000001", "000003"]
    assert list(newer.manifest.sources) == ["000001"]
    with pytest.raises(StoreError, match="no source vectors of segment 000003; make them again with `knnmt build`"):
        _ = newer.source_vectors


def cut(directory: Path) -> None:
    (directory / "pieces.npy").write_bytes((directory / "pieces.npy").read_bytes()[:-4])


def swap(directory: Path) -> None:
    """Pieces outside of the vocabulary, in a file of the right size."""
    np.save(directory / "pieces.npy", np.load(directory / "pieces.npy") + 10_000_000)


def disorder(directory: Path) -> None:
    starts = np.load(directory / "starts.npy")
    np.save(directory / "starts.npy", np.concatenate([starts[:1], starts[1:-1][::-1], starts[-1:]]))


def scribble(directory: Path) -> None:
    (directory / "counts.npy").write_bytes(b"x" * (directory / "counts.npy").stat().st_size)


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (shutil.rmtree, "is missing"),
    (cut, "bytes where the manifest says"),
    (swap, "are not those of segment 000001"),
    (disorder, "are not those of segment 000001"),
    (scribble, "are damaged"),
]


@pytest.mark.parametrize(("damage", "problem"), DAMAGE)
def test_damage_is_a_sentence_and_the_store_can_be_used(
    store: Store, damage: Callable[[Path], None], problem: str
) -> None:
    damage(store.path / store.manifest.sources["000001"].directory)
    opened = Store.open(store.path)
    assert opened.entries.keys(opened.entries.ids(np.arange(3))).shape == (3, store.dim)
    with pytest.raises(StoreError, match=f"{problem}.*make them again with `knnmt build` on the store, without"):
        _ = opened.source_vectors
    assert any("sources/000001" in found for found in verify_files(store.path))
