"""The similarity of sources, against loops over pieces."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from memory_store import toy_model

from knnmt.corpus import Pair
from knnmt.datastore import Entries, SourceVectors, Store, StoredSentences, StoreWriter
from knnmt.memory.similarity import SourceSimilarity

Sources = list[list[int]]


def drawn(count: int, seed: int) -> Sources:
    """Sources with few distinct pieces, one of them in all, and one without any."""
    rng = np.random.default_rng(seed)
    return [[2, *rng.integers(3, 25, rng.integers(0, 12)).tolist()] for _ in range(count - 1)] + [[]]


def make(path: Path, *parts: Sources) -> Store:
    """A store with a segment for each part; every sentence has two entries."""
    rng = np.random.default_rng(0)
    for number, sources in enumerate(parts, 1):
        with StoreWriter(path, toy_model(4)) as writer:
            staged = writer.stage(str(number))
            rows = max(2 * len(sources), 20_000)  # no tail that would be merged
            pairs = [Pair(f"{number} {i}", f"t{i}", "a.tsv", i) for i in range(len(sources))]
            lengths = [2] * (len(sources) - 1) + [rows - 2 * (len(sources) - 1)]
            keys = rng.normal(size=(rows, 4)).astype(np.float16)
            staged.append(keys, np.ones(rows, np.int64), np.zeros(rows), lengths, pairs, {})
            plan = writer.plan(staged)
            vectors = writer.new_directory("sources", plan.new.name)  # type: ignore[union-attr]
            SourceVectors.of(sources).write(vectors)
            store = writer.commit(plan, sources={plan.new.name: vectors})  # type: ignore[union-attr]
    return store


def naive(stored: Sources, counted: Sources, source: list[int]) -> list[float]:
    occurring = Counter(piece for each in counted for piece in set(each))

    def weighted(pieces: list[int]) -> dict[int, float]:
        idf = {piece: math.log((1 + len(counted)) / max(occurring[piece], 1)) for piece in pieces}
        weights = {piece: count * idf[piece] for piece, count in Counter(pieces).items()}
        norm = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        return {piece: weight / norm for piece, weight in weights.items()}

    mine = weighted(source)
    return [sum(mine.get(piece, 0) * weight for piece, weight in weighted(each).items()) for each in stored]


@pytest.mark.parametrize("segments", [1, 3])
def test_against_loops(tmp_path: Path, segments: int) -> None:
    parts = [drawn(30, seed) for seed in range(segments)]
    store = make(tmp_path / "store", *parts)
    similarity = SourceSimilarity(store)
    stored = [source for part in parts for source in part]
    asked = [stored[3], [*stored[4], 30, 31], drawn(2, 9)[0], [], [40, 41]]
    rng = np.random.default_rng(1)
    source = rng.integers(-1, len(asked), 50)
    names = [(number << 32) + row for number, part in enumerate(parts, 1) for row in range(len(part))]
    chosen = rng.integers(-1, len(names), (50, 6))
    found = similarity.cosines(similarity.query(SourceVectors.of(asked)), source, np.array([*names, -1])[chosen])
    for row in range(50):
        expected = naive(stored, stored, asked[source[row]])
        for column, number in enumerate(chosen[row].tolist()):
            known = number >= 0 and source[row] >= 0
            assert found[row, column] == pytest.approx(expected[number] if known else 0.0, abs=1e-5)
    itself = similarity.query(SourceVectors.of([stored[3]]))
    assert similarity.cosines(itself, np.zeros(1, int), np.array([[names[3]]]))[0, 0] == pytest.approx(1.0)


def test_a_view_counts_its_own_sentences(tmp_path: Path) -> None:
    sources = drawn(30, 0)
    store = make(tmp_path / "store", sources)
    live = np.arange(store.entry_count) < 40  # of the first 20 sentences
    with StoreWriter(store.path, store.model) as writer:
        view = writer.commit_view("some", Entries(writer.opened.segments, {"000001": live})).view("some")
    similarity = SourceSimilarity(view)
    sentences = (1 << 32) + np.arange(30)[None]
    found = similarity.cosines(similarity.query(SourceVectors.of([sources[25]])), np.zeros(1, int), sentences)
    np.testing.assert_allclose(found[0], naive(sources, sources[:20], sources[25]), atol=1e-5)


def test_vectors_of_sentences(tmp_path: Path) -> None:
    parts = [drawn(30, seed) for seed in range(2)]
    stored = StoredSentences(make(tmp_path / "store", *parts))
    numbers = np.array([45, 2, 2, 59, 0, 31])
    found = stored.source_vectors(numbers)
    expected = SourceVectors.of([[*parts[0], *parts[1]][number] for number in numbers])
    for name in SourceVectors.COLUMNS:
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
