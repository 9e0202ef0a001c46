"""The pieces of each stored source, to tell which stored sentences resemble the present one; derived from a segment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from knnmt.datastore.file_record import size_problem
from knnmt.datastore.files import reading_errors
from knnmt.datastore.manifest import DirectoryRecord
from knnmt.datastore.segment import Segment
from knnmt.errors import StoreError
from knnmt.out_of_memory import memory_errors
from knnmt.ranges import ranges

FIX = "make them again with `knnmt build` on the store, without a corpus"
_MOST = np.iinfo(np.uint8).max  # occurrences that are counted


class SourceVectors:
    """How often each piece occurs in the source of each sentence; the files are memory-mapped.

    Attributes:
        starts: where the pieces of each sentence start  # int64 [sentences + 1]
        pieces: the distinct pieces of each sentence, ascending  # int32 [all]
        counts: how often they occur  # uint8 [all]
    """

    COLUMNS: ClassVar = {"starts": np.dtype("<i8"), "pieces": np.dtype("<i4"), "counts": np.dtype("u1")}

    def __init__(
        self, starts: npt.NDArray[np.int64], pieces: npt.NDArray[np.int32], counts: npt.NDArray[np.uint8]
    ) -> None:
        self.starts, self.pieces, self.counts = starts, pieces, counts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]]) -> Self:
        """The vectors of encoded sources."""
        lengths = np.array([len(source) for source in sources], np.int64)
        sentence = np.repeat(np.arange(len(sources), dtype=np.int64), lengths)
        pieces = np.concatenate([np.asarray(source, np.int64) for source in sources] or [np.empty(0, np.int64)])
        distinct, counts = np.unique(sentence << 32 | pieces, return_counts=True)
        starts = np.searchsorted(distinct >> 32, np.arange(len(sources) + 1))
        return cls(
            starts.astype(np.int64),
            (distinct & 0xFFFFFFFF).astype(np.int32),
            counts.clip(max=_MOST).astype(np.uint8),
        )

    def take(self, sentences: npt.NDArray[np.int64]) -> Self:
        """The vectors of some sentences."""
        lengths = np.diff(self.starts)[sentences]
        rows = ranges(self.starts[:-1][sentences], lengths)
        return type(self)(np.cumsum([0, *lengths]), self.pieces[rows], self.counts[rows])

    @classmethod
    def concatenate(cls, parts: "Sequence[SourceVectors]") -> Self:
        """The sentences of all parts, in order."""
        ends = np.cumsum([0, *(len(part.pieces) for part in parts)])
        starts = [part.starts[:-1] + before for part, before in zip(parts, ends, strict=False)]
        return cls(
            np.concatenate([*starts, ends[-1:]]),
            np.concatenate([part.pieces for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )

    @classmethod
    @memory_errors("open the store")
    def read(cls, path: Path, record: DirectoryRecord, segment: Segment, vocabulary: int) -> Self:
        """Open the files. Raises `StoreError` if they are missing, damaged or not of the segment.

        Args:
            path: directory of the store
        """
        directory = path / record.directory
        with reading_errors(directory):
            if problem := size_problem(directory, record.files, FIX):
                raise StoreError(problem)
            try:
                columns: dict[str, npt.NDArray[Any]] = {
                    name: np.asarray(np.load(directory / f"{name}.npy", mmap_mode="r", allow_pickle=False))
                    for name in cls.COLUMNS
                }
            except ValueError as error:
                raise StoreError(f"the source vectors in {directory} are damaged; {FIX}") from error
        found = cls(**columns)
        typed = all(columns[name].dtype == dtype and columns[name].ndim == 1 for name, dtype in cls.COLUMNS.items())
        if not typed or len(found) != segment.record.sentences or not found._is_sound(vocabulary):
            raise StoreError(f"the source vectors in {directory} are not those of segment {segment.name}; {FIX}")
        return found

    def _is_sound(self, vocabulary: int) -> bool:
        """Whether every start and piece is in range: a search must not read outside of the arrays."""
        ends = (self.starts[0], self.starts[-1]) == (0, len(self.pieces)) and len(self.pieces) == len(self.counts)
        in_order = bool((np.diff(self.starts) >= 0).all())
        return ends and in_order and (not len(self.pieces) or 0 <= self.pieces.min() <= self.pieces.max() < vocabulary)

    def write(self, directory: Path) -> None:
        """Write the files to an existing directory."""
        for name, dtype in self.COLUMNS.items():
            np.save(directory / f"{name}.npy", getattr(self, name).astype(dtype, copy=False))
