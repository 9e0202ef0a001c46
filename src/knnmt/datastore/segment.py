"""A segment: an immutable part of a store, memory-mapped."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from knnmt.datastore.file_record import file_problems, measure_files
from knnmt.datastore.file_record import size_problem as size_problem_of
from knnmt.datastore.manifest import SegmentRecord
from knnmt.datastore.sentences import SCHEMA, read_table
from knnmt.errors import StoreError
from knnmt.out_of_memory import memory_errors

COLUMNS: dict[str, np.dtype[Any]] = {  # one .npy file each, one row per entry; little-endian on every machine
    "keys": np.dtype("<f2"),
    "values": np.dtype("<i4"),
    "confidence": np.dtype("<f4"),
    "sentence": np.dtype("<u4"),
    "position": np.dtype("<u2"),
}
SENTENCES = "sentences.arrow"
FILES = (*(f"{column}.npy" for column in COLUMNS), SENTENCES)

_EXPONENT = np.uint16(0x7C00)  # these bits are all 1 in an fp16 number that is infinite or NaN
_SAMPLE = 256  # rows checked when a segment is opened

FIX = "restore it from a copy or build the store again"


class Segment:
    """Entries: hidden states, the token that follows each, and the sentences they come from.

    The rows of one sentence are contiguous, in ascending position. Row n of `sentence_table` belongs to the rows
    whose `sentence` is n.

    Args:
        name: its name in the manifest; `number` is the upper half of its entries' ids.
        path: the directory of its files; in `staging/` until it is committed.
        keys: fp16 [entries, dim]
        values: int32 [entries], target tokens
        confidence: float32 [entries], log p_NMT of the token
        sentence: uint32 [entries], row of `sentence_table`
        position: uint16 [entries], position of the token in its sentence
        sentence_table: source, target, origin, line, source_hash, target_hash, pair_hash
    """

    keys: npt.NDArray[np.float16]
    values: npt.NDArray[np.int32]
    confidence: npt.NDArray[np.float32]
    sentence: npt.NDArray[np.uint32]
    position: npt.NDArray[np.uint16]
    sentence_table: pa.Table

    def __init__(self, path: Path, record: SegmentRecord, dim: int) -> None:
        """Opens the files and checks their sizes, which detects truncated files; `problems` reads every byte."""
        self.path = path
        self.record = record
        self.name = record.name
        self.number = int(record.name)
        damage = size_problem(path, record)
        if damage is not None:
            raise StoreError(damage)
        for column, dtype in COLUMNS.items():
            shape = (record.entries, dim) if column == "keys" else (record.entries,)
            setattr(self, column, _map(path / f"{column}.npy", dtype, shape))
        self.sentence_table = _open_sentences(path / SENTENCES, record.sentences)

    def __len__(self) -> int:
        return self.record.entries

    @cached_property
    def damage(self) -> list[str]:
        """`problems` of its files; reads every byte, once."""
        return problems(self.path, self.record)

    def __repr__(self) -> str:
        return f"Segment({self.name}, entries={self.record.entries}, sentences={self.record.sentences})"


@memory_errors("open the store")
def _map(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    if array.dtype != dtype or array.shape != shape:
        raise StoreError(
            f"{path} holds {array.dtype}{list(array.shape)} where the manifest says {dtype}{list(shape)}; {FIX}"
        )
    return np.asarray(array)  # the plain view is faster to index than np.memmap, and maps the same pages


@memory_errors("open the store")
def _open_sentences(path: Path, sentences: int) -> pa.Table:
    try:
        table = read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error
    if table.schema != SCHEMA or len(table) != sentences:
        raise StoreError(f"{path} is not the table of {sentences} sentences the manifest names; {FIX}")
    return table


def _damaged(path: Path, error: Exception) -> Exception:
    """A `StoreError` for damaged content; an error of the operating system, which has an errno, stays as it is."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    return StoreError(f"{path} is damaged ({' '.join(str(error).split())}); {FIX}")


def measure(path: Path, name: str, entries: int, sentences: int) -> SegmentRecord:
    """The record of finished files; reads all of them for their checksums."""
    return SegmentRecord(name, entries, sentences, measure_files(path, FILES))


def size_problem(path: Path, record: SegmentRecord) -> str | None:
    """The first file that is missing or truncated, in one sentence; None if all sizes are as recorded."""
    for name in FILES:
        if name not in record.files:
            return f"the manifest has no record of {path / name}; {FIX}"
    return size_problem_of(path, record.files, FIX)


def problems(path: Path, record: SegmentRecord) -> list[str]:
    """One sentence per file that is missing, truncated or damaged; reads every byte."""
    missing = [f"the manifest has no record of {path / name}; {FIX}" for name in FILES if name not in record.files]
    return missing + file_problems(path, record.files, FIX)


def check_sound(segments: Iterable[Segment]) -> None:
    """Raise `StoreError` for damaged files, so that nothing is made of them."""
    for segment in segments:
        if segment.damage:
            raise StoreError(segment.damage[0])


def content_problem(segment: Segment, rows: slice | npt.NDArray[np.int64], vocabulary: int) -> str | None:
    """Invalid content in some rows: damage from before the checksum was computed, or in files not verified since."""
    keys = np.ascontiguousarray(segment.keys[rows])
    values = segment.values[rows]
    if not finite_half(keys):
        return f"damaged: {segment.path / 'keys.npy'} holds numbers that are not finite; {FIX}"
    if ((values < 0) | (values >= vocabulary)).any():
        return f"damaged: {segment.path / 'values.npy'} holds tokens outside of the vocabulary; {FIX}"
    if not np.isfinite(segment.confidence[rows]).all():
        return f"damaged: {segment.path / 'confidence.npy'} holds numbers that are not finite; {FIX}"
    if (segment.sentence[rows] >= segment.record.sentences).any():
        return f"damaged: {segment.path / 'sentence.npy'} names sentences that are not in the table; {FIX}"
    return None


def sampled_problem(segment: Segment, vocabulary: int) -> str | None:
    """`content_problem` for a sample of rows across the segment: fast enough to run on every open."""
    return content_problem(
        segment, np.linspace(0, len(segment) - 1, min(len(segment), _SAMPLE)).astype(int), vocabulary
    )


def finite_half(keys: npt.NDArray[np.float16]) -> bool:
    """Whether all numbers are finite. Compares bits, which is much faster than np.isfinite on fp16."""
    return not ((keys.view("<u2") & _EXPONENT) == _EXPONENT).any()
