"""A view: some rows of a store, searched as if there were no others. On disk, one bit per row of its segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from knnmt.datastore.entries import Entries
from knnmt.datastore.file_record import size_problem
from knnmt.datastore.files import reading_errors
from knnmt.datastore.manifest import DirectoryRecord
from knnmt.datastore.segment import Segment
from knnmt.errors import StoreError
from knnmt.out_of_memory import memory_errors

FIX = "make the view again, or remove it"


@dataclass(frozen=True)
class View:
    """The masks of a view as they were when the store was opened; the files are memory-mapped.

    Args:
        bits: by segment name, which rows count, eight per byte  # uint8 [⌈rows / 8⌉]
        problem: why the view cannot be used, in one sentence; None if it can
    """

    bits: Mapping[str, npt.NDArray[np.uint8]]
    problem: str | None

    @classmethod
    def read(cls, path: Path, record: DirectoryRecord, segments: Sequence[Segment]) -> Self:
        """Read the masks. A missing or damaged view is not an error here: the store can be used without it.

        Args:
            path: directory of the store
            segments: segments of the store
        """
        directory = path / record.directory
        rows = {f"{segment.name}.npy": len(segment) for segment in segments}
        try:
            with reading_errors(directory):
                if problem := size_problem(directory, record.files, FIX):
                    return cls({}, problem)
                bits = {name: _read_bits(directory / name, rows.get(name)) for name in record.files}
            return cls({name.removesuffix(".npy"): packed for name, packed in bits.items()}, None)
        except StoreError as error:
            return cls({}, str(error))

    def entries(self, segments: Sequence[Segment]) -> Entries:
        """The live rows of the view's segments, which must be among `segments`."""
        own = [segment for segment in segments if segment.name in self.bits]
        mask = {each.name: np.unpackbits(self.bits[each.name], count=len(each)).view(np.bool_) for each in own}
        return Entries(own, mask)


@memory_errors("open the store")
def _read_bits(path: Path, rows: int | None) -> npt.NDArray[np.uint8]:
    if rows is None:
        raise StoreError(f"{path} is of a segment that the store does not have; {FIX}")
    try:
        bits: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise StoreError(f"{path} is damaged; {FIX}") from error
    if bits.dtype != np.uint8 or bits.shape != ((rows + 7) // 8,):
        raise StoreError(f"{path} is not one bit for each of {rows:,} rows; {FIX}")
    return np.asarray(bits)


def write_view(directory: Path, entries: Entries) -> None:
    """Write one mask per segment to an existing directory; all True for a segment without a mask."""
    for segment in entries.segments:
        rows = entries.mask.get(segment.name, np.ones(len(segment), np.bool_))
        np.save(directory / f"{segment.name}.npy", np.packbits(rows))
