"""A segment: an immutable part of a store, memory-mapped."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from knnmt.datastore.files import checksum
from knnmt.datastore.manifest import FileRecord, SegmentRecord
from knnmt.datastore.sentences import SCHEMA, read_table
from knnmt.errors import StoreError
from knnmt.out_of_memory import memory_errors

COLUMNS: dict[str, np.dtype[Any]] = {  # one .npy file each, a row a pair; little-endian whatever the machine
    "keys": np.dtype("<f2"),
    "values": np.dtype("<i4"),
    "confidence": np.dtype("<f4"),
    "sentence": np.dtype("<u4"),
    "position": np.dtype("<u2"),
}
SENTENCES = "sentences.arrow"
FILES = (*(f"{column}.npy" for column in COLUMNS), SENTENCES)

MEND = "restore it from a copy or build the store again"


class Segment:
    """Pairs of hidden state and token, and where they come from.

    The rows of one sentence are contiguous and ascend in position; the n-th row of `sentence_table` belongs
    to the rows whose `sentence` is n.

    Args:
        name: its name in the manifest; `number` is the upper half of its pairs' ids.
        path: where its files are; in `staging/` as long as it is not committed.
        keys: fp16 [pairs, dim]
        values: int32 [pairs], target tokens
        confidence: float32 [pairs], log p of the token by the model alone
        sentence: uint32 [pairs], row of `sentence_table`
        position: uint16 [pairs], of the token in its sentence
        sentence_table: source, target, origin, line, source_hash, target_hash, pair_hash
    """

    keys: npt.NDArray[np.float16]
    values: npt.NDArray[np.int32]
    confidence: npt.NDArray[np.float32]
    sentence: npt.NDArray[np.uint32]
    position: npt.NDArray[np.uint16]
    sentence_table: pa.Table

    def __init__(self, path: Path, record: SegmentRecord, dim: int) -> None:
        """Opens the files and checks their sizes, which finds what was cut short; `problems` reads it all."""
        self.path = path
        self.record = record
        self.name = record.name
        self.number = int(record.name)
        damage = size_problem(path, record)
        if damage is not None:
            raise StoreError(damage)
        for column, dtype in COLUMNS.items():
            shape = (record.pairs, dim) if column == "keys" else (record.pairs,)
            setattr(self, column, _map(path / f"{column}.npy", dtype, shape))
        self.sentence_table = _open_sentences(path / SENTENCES, record.sentences)

    def __len__(self) -> int:
        return self.record.pairs

    def __repr__(self) -> str:
        return f"Segment({self.name}, pairs={self.record.pairs}, sentences={self.record.sentences})"


@memory_errors("open the store")
def _map(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {path}: {error}; {MEND}") from error
    if array.dtype != dtype or array.shape != shape:
        raise StoreError(
            f"{path} holds {array.dtype}{list(array.shape)} where the manifest says {dtype}{list(shape)}; {MEND}"
        )
    return np.asarray(array)  # the plain view is faster to index than np.memmap, and maps the same pages


@memory_errors("open the store")
def _open_sentences(path: Path, sentences: int) -> pa.Table:
    try:
        table = read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"cannot read {path}: {error}; {MEND}") from error
    if table.schema != SCHEMA or len(table) != sentences:
        raise StoreError(f"{path} is not the table of {sentences} sentences the manifest names; {MEND}")
    return table


def measure(path: Path, name: str, pairs: int, sentences: int) -> SegmentRecord:
    """The record of finished files; reads all of them for their checksums."""
    files = {file: FileRecord((path / file).stat().st_size, checksum(path / file)) for file in FILES}
    return SegmentRecord(name, pairs, sentences, files)


def size_problem(path: Path, record: SegmentRecord) -> str | None:
    """What is missing or cut short, in a sentence; None if all sizes are as recorded."""
    for name in FILES:
        expected = record.files.get(name)
        file = path / name
        if expected is None:
            return f"the manifest has no record of {file}; {MEND}"
        if not file.is_file():
            return f"{file} is missing; {MEND}"
        size = file.stat().st_size
        if size != expected.bytes:
            return f"{file} has {size:,} bytes where the manifest says {expected.bytes:,}; {MEND}"
    return None


def problems(path: Path, record: SegmentRecord) -> list[str]:
    """Everything that is not as recorded; reads every byte."""
    damage = size_problem(path, record)
    if damage is not None:
        return [damage]
    found = []
    for name in FILES:
        try:
            if checksum(path / name) != record.files[name].blake2b:
                found.append(f"{path / name} is damaged, its checksum is not the manifest's; {MEND}")
        except OSError as error:
            found.append(f"cannot read {path / name}: {error.strerror}; {MEND}")
    return found
