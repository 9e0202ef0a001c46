"""sentences.arrow, cut in batches and with one dictionary of origins, and the growing .npy files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from knnmt.corpus import Pair, pair_hash, text_hash
from knnmt.datastore import npy, sentences


def pairs(start: int, count: int) -> list[Pair]:
    return [Pair(f"Quelle {n}", f"target {n}", f"origin {n % 5}", n) for n in range(start, start + count)]


@pytest.mark.parametrize("counts", [[1], [4, 4], [3, 9, 0, 1, 26], [8], [30]])
@pytest.mark.parametrize("with_tail", [True, False])
def test_joined_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: list[int], with_tail: bool) -> None:
    monkeypatch.setattr(sentences, "BATCH", 8)
    expected: list[Pair] = []
    blocks = []
    for number, count in enumerate(counts):
        block = pairs(len(expected), count)
        blocks.append(tmp_path / f"{number}.arrow")
        sentences.write_block(blocks[-1], sentences.block_of(block))
        expected += block
    tail = None
    if with_tail:
        older = pairs(1000, 11)
        sentences.write_block(tmp_path / "older", sentences.block_of(older))
        sentences.write_sentences(tmp_path / "tail", [tmp_path / "older"], None)
        tail = sentences.read_table(tmp_path / "tail")
        expected += older
    sentences.write_sentences(tmp_path / "all", blocks, tail)

    table = sentences.read_table(tmp_path / "all")
    assert table.schema == sentences.SCHEMA
    assert [len(batch) for batch in table.to_batches()][:-1] == [8] * ((len(expected) - 1) // 8)
    rows = table.to_pylist()
    assert [Pair(r["source"], r["target"], r["origin"], r["line"]) for r in rows] == expected
    for row, pair in zip(rows, expected, strict=True):
        assert row["source_hash"] == text_hash(pair.source)
        assert row["target_hash"] == text_hash(pair.target)
        assert row["pair_hash"] == pair_hash(pair.source, pair.target)
    origins = table["origin"].chunk(0).dictionary.to_pylist()
    assert origins == list(dict.fromkeys(pair.origin for pair in expected))


def test_hashes_use_all_64_bits() -> None:
    block = sentences.block_of(pairs(0, 64))
    assert block["pair_hash"].type == pa.uint64()
    assert max(block["pair_hash"].to_pylist()) >= 1 << 63


def test_a_header_has_one_length_whatever_the_count() -> None:
    lengths = {len(npy.header(np.dtype("<f2"), (count, 512))) for count in (0, 7, 65_536, 2**32)}
    assert lengths == {128}


@pytest.mark.parametrize("width", [(), (3,)])
def test_splice(tmp_path: Path, width: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    content = random.integers(0, 99, (0, *width)).astype(np.int32)
    for start, count in [(0, 5), (5, 0), (5, 9), (8, 2), (0, 3), (3, 200), (1, 0)]:
        rows = random.integers(0, 99, (count, *width)).astype(np.int32)
        content = np.concatenate([content[:start], rows])
        npy.splice(tmp_path / "x.npy", start, rows)
        loaded = np.load(tmp_path / "x.npy")
        assert loaded.dtype == np.int32
        assert loaded.tolist() == content.tolist()
        assert (tmp_path / "x.npy").stat().st_size == npy.size(loaded.dtype, loaded.shape)
    npy.splice(tmp_path / "y.npy", 0, np.asfortranarray(random.integers(0, 9, (4, 3))))
    assert np.load(tmp_path / "y.npy").flags.c_contiguous
