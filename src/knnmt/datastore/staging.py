"""An unfinished segment: its finished blocks stay in `staging/` until they are committed."""

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from knnmt.corpus import Pair
from knnmt.datastore import npy
from knnmt.datastore.files import listing, remove, storage_errors, sync_directory, write_json
from knnmt.datastore.manifest import SegmentRecord
from knnmt.datastore.segment import COLUMNS, SENTENCES, Segment, finite_half, measure, problems, size_problem
from knnmt.datastore.sentences import block_of, read_table, write_block, write_sentences
from knnmt.errors import StoreError

JOURNAL = "journal.json"
SEGMENT = "segment"  # the directory that becomes segments/NAME
_BLOCKS = "blocks"
_FORMAT = 1
_MAX_ROWS = 4_000_000_000  # an id has 32 bits for the row, and a tail may be added
_MAX_LENGTH = 1 << 16  # position.npy is uint16


@dataclass(frozen=True)
class Journal:
    """The finished part of a staged segment; bytes after it belong to an incomplete block and are ignored.

    `finished` is the record of the final files, `tail` the record of the older segment that was joined to them.
    """

    dim: int
    format: int = _FORMAT
    blocks: int = 0
    rows: int = 0
    sentences: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    finished: SegmentRecord | None = None
    tail: SegmentRecord | None = None

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Read the journal; None if no block is finished, or if the journal has another format."""
        try:
            value = json.loads((directory / JOURNAL).read_text(encoding="utf-8"))
            for name in ("finished", "tail"):
                value[name] = None if value[name] is None else SegmentRecord.from_json(value[name])
            return cls(**value) if value["format"] == _FORMAT else None
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def write(self, directory: Path) -> None:
        write_json(
            directory / JOURNAL,
            asdict(self)
            | {
                "finished": None if self.finished is None else self.finished.to_json(),
                "tail": None if self.tail is None else self.tail.to_json(),
            },
        )


def discard(directory: Path) -> None:
    """Remove a staged segment. The journal goes last, because it says what was committed."""
    for path in listing(directory):
        if path.name != JOURNAL:
            remove(path)
    remove(directory)


class StagedSegment:
    """Collects blocks of entries; each block is on disk when `append` returns.

    Opened again after a kill, it continues after the last finished block: `blocks`, `rows`, `sentences` and the
    caller's `state` have their values from then.
    """

    def __init__(self, directory: Path, dim: int, committed: Collection[SegmentRecord] = ()) -> None:
        self.directory = directory
        journal = Journal.read(directory)
        # A writer that was killed right after its commit leaves the journal without the files.
        self.committed = journal is not None and journal.finished is not None and journal.finished in committed
        if journal is None or not (self.committed or self._is_whole(journal, dim)):
            if directory.exists():
                remove(directory)
            journal = Journal(dim)
        self._journal = journal

    @property
    def blocks(self) -> int:
        return self._journal.blocks

    @property
    def rows(self) -> int:
        return self._journal.rows

    @property
    def sentences(self) -> int:
        return self._journal.sentences

    @property
    def state(self) -> dict[str, Any]:
        """The caller's state from the last finished block; {} before the first."""
        return self._journal.state

    def pair_hashes(self) -> npt.NDArray[np.uint64]:
        """Pair hashes of the sentences in all finished blocks.  # [sentences]"""
        blocks = [read_table(self._block(number)) for number in range(self.blocks)]
        return np.concatenate([np.empty(0, np.uint64), *(block["pair_hash"].to_numpy() for block in blocks)])

    def restart(self) -> None:
        """Remove the finished blocks."""
        with storage_errors(self.directory):
            remove(self.directory)
        self._journal = Journal(self._journal.dim)

    def append(
        self,
        keys: npt.NDArray[np.floating[Any]],
        values: npt.NDArray[np.integer[Any]],
        confidence: npt.NDArray[np.floating[Any]],
        lengths: npt.NDArray[np.integer[Any]] | Sequence[int],
        pairs: Sequence[Pair],
        state: dict[str, Any],
    ) -> None:
        """Add a block of whole sentences, whose tokens are concatenated in the arrays.

        Args:
            keys: [tokens, dim], stored as fp16
            values: [tokens]
            confidence: [tokens], log p
            lengths: [sentences], tokens per sentence, at least one
            pairs: [sentences]
            state: JSON of the caller, available again after a kill
        """
        if self.committed:
            raise ValueError("this segment is already part of the store")
        columns = self._columns(keys, values, confidence, np.asarray(lengths, dtype=np.int64), len(pairs))
        with storage_errors(self.directory):
            if self._journal.finished is not None:
                self._note(finished=None, tail=None)
            self._make_directories()
            for name, column in columns.items():
                npy.splice(self._file(name), self.rows, column)
            write_block(self._block(self.blocks), block_of(pairs))
            sync_directory(self.directory / SEGMENT)
            sync_directory(self.directory / _BLOCKS)
            self._note(
                blocks=self.blocks + 1,
                rows=self.rows + len(columns["values"]),
                sentences=self.sentences + len(pairs),
                state=dict(state),
            )

    def finish(self, name: str, tail: Segment | None = None) -> Segment:
        """Write the final files under the segment's final name, with the rows of `tail` at the end; still staged.

        Can be repeated, also after a kill and with another name or tail. Reads everything once for checksums.
        """
        tail_record = None if tail is None else tail.record
        done = self._journal.finished
        with storage_errors(self.directory):
            sound = done is not None and size_problem(self.directory / SEGMENT, done) is None
            if done is None or not sound or done.name != name or self._journal.tail != tail_record:
                self._note(finished=None, tail=None)
                done = self._write_final_files(name, tail)
                self._note(finished=done, tail=tail_record)
            return Segment(self.directory / SEGMENT, done, self._journal.dim)

    def _write_final_files(self, name: str, tail: Segment | None) -> SegmentRecord:
        if tail is not None:
            damage = problems(tail.path, tail.record)  # otherwise a new checksum would hide the damage
            if damage:
                raise StoreError(damage[0])
        for column, dtype in COLUMNS.items():
            rows = np.empty(self._shape(column, 0), dtype) if tail is None else getattr(tail, column)
            if column == "sentence":
                rows = rows + np.uint32(self.sentences)
            npy.splice(self._file(column), self.rows, rows)
        table = None if tail is None else tail.sentence_table
        write_sentences(self._file(SENTENCES), [self._block(number) for number in range(self.blocks)], table)
        sync_directory(self.directory / SEGMENT)
        entries = self.rows + (0 if tail is None else tail.record.entries)
        sentences = self.sentences + (0 if tail is None else tail.record.sentences)
        return measure(self.directory / SEGMENT, name, entries, sentences)

    def _columns(
        self,
        keys: npt.NDArray[Any],
        values: npt.NDArray[Any],
        confidence: npt.NDArray[Any],
        lengths: npt.NDArray[np.int64],
        sentences: int,
    ) -> dict[str, npt.NDArray[Any]]:
        """Check a block and convert it to the dtypes of the files."""
        tokens = int(lengths.sum())
        if keys.shape != self._shape("keys", tokens) or not values.shape == confidence.shape == (tokens,):
            raise ValueError(f"{keys.shape=}, {values.shape=}, {confidence.shape=} do not fit {tokens} tokens")
        if lengths.shape != (sentences,) or (lengths < 1).any():
            raise ValueError("each sentence needs a length of at least one token")
        if (lengths > _MAX_LENGTH).any():
            raise StoreError(f"a sentence has more than {_MAX_LENGTH:,} tokens; split or remove it")
        if self.rows + tokens > _MAX_ROWS:
            raise StoreError(f"a single build holds at most {_MAX_ROWS:,} entries; add the corpus in parts")
        starts = np.cumsum(lengths) - lengths  # [sentences]
        columns = {
            "keys": _half(keys),
            "values": values,
            "confidence": confidence,
            "sentence": self.sentences + np.repeat(np.arange(sentences), lengths),
            "position": np.arange(tokens) - np.repeat(starts, lengths),
        }
        return {name: column.astype(COLUMNS[name], copy=False) for name, column in columns.items()}

    def _shape(self, column: str, rows: int) -> tuple[int, ...]:
        return (rows, self._journal.dim) if column == "keys" else (rows,)

    def _file(self, name: str) -> Path:
        return self.directory / SEGMENT / (name if name == SENTENCES else f"{name}.npy")

    def _block(self, number: int) -> Path:
        return self.directory / _BLOCKS / f"{number:06d}.arrow"

    def _note(self, **changes: Any) -> None:
        journal = replace(self._journal, **changes)
        if journal != self._journal:
            journal.write(self.directory)
            self._journal = journal

    def _make_directories(self) -> None:
        if self.blocks > 0:
            return
        for name in (SEGMENT, _BLOCKS):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        for parent in (self.directory, *self.directory.parents[:2]):  # staging/KEY, staging, the store
            sync_directory(parent)

    def _is_whole(self, journal: Journal, dim: int) -> bool:
        """Whether the files contain everything that the journal lists; the disk may have lost some of it."""
        if journal.dim != dim:
            return False
        self._journal = journal
        for column, dtype in COLUMNS.items():
            file = self._file(column)
            if not file.is_file() or os.path.getsize(file) < npy.size(dtype, self._shape(column, journal.rows)):
                return False
        return all(self._block(number).is_file() for number in range(journal.blocks))


def _half(keys: npt.NDArray[Any]) -> npt.NDArray[np.float16]:
    with np.errstate(over="ignore"):
        half = keys.astype("<f2", copy=False)
    if not finite_half(half):
        raise StoreError(
            "a key overflows fp16 or is not a number, so this model's hidden states cannot be stored; "
            "try the other key layer or another model"
        )
    return half
