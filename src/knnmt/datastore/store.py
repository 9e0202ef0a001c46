"""A store opened for reading."""

import hashlib
import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from knnmt.datastore.files import check_name, entries, reading_errors, size_on_disk
from knnmt.datastore.lease import Lease
from knnmt.datastore.manifest import COMBINERS, SEGMENTS, STAGING, Manifest, read_manifest
from knnmt.datastore.model_record import ModelRecord
from knnmt.datastore.segment import SENTENCES, Segment, sampled_problem
from knnmt.datastore.staging import SEGMENT as STAGED
from knnmt.datastore.staging import Journal
from knnmt.errors import StoreError

ROW_BITS = 32  # a pair's id is segment number << ROW_BITS | row
_UNKNOWN = "an id names a segment that the store does not have"

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a pair comes from; `sentence` tells sentences apart within the store (segment << 32 | row)."""

    source: str
    target: str
    origin: str
    line: int
    position: int
    sentence: int


class Store:
    """A snapshot: what the manifest named when the store was opened, index and combiners included.

    Later commits do not change it, and no writer removes what it names as long as it lives. `latest` gives the store
    as it is now.

    Example:
        store = Store.open("memory")
        store.keys(neighbours.ids)      # fp16 [rows, k, dim]
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        # Segments are mapped here and now; the index and the combiners are opened when somebody needs them.
        self._lease = Lease(path / record.directory for record in manifest.derived())
        weakref.finalize(self, self._lease.release)
        dim = manifest.model.dim
        self.segments: tuple[Segment, ...] = tuple(
            Segment(path / SEGMENTS / record.name, record, dim) for record in manifest.segments
        )
        self._by_number = {segment.number: segment for segment in self.segments}
        for segment in self.segments:
            if problem := sampled_problem(segment, manifest.model.vocab_size):
                raise StoreError(problem)

    @classmethod
    def open(cls, store: "str | Path | Store") -> "Store":
        """A store by its directory; one that is open stays the snapshot that it is.

        Raises `StoreError` where there is no store, a newer one, or one with missing or damaged files.
        """
        if isinstance(store, Store):
            return store
        path = Path(store)
        check_name(path)
        while True:
            manifest = read_manifest(path)
            # A writer may commit, and the next one sweep, between the manifest and what it names: then once more.
            try:
                with reading_errors(path):
                    opened = cls(path, manifest)
                if opened._lease.complete or read_manifest(path) == manifest:
                    return opened
            except StoreError:
                if read_manifest(path) == manifest:
                    raise

    def latest(self) -> "Store":
        """The store as it is now; this one where nothing was committed since it was opened."""
        return self if read_manifest(self.path) == self.manifest else Store.open(self.path)

    @property
    def model(self) -> ModelRecord:
        return self.manifest.model

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def pairs(self) -> int:
        return sum(segment.record.pairs for segment in self.segments)

    @property
    def sentences(self) -> int:
        return sum(segment.record.sentences for segment in self.segments)

    @property
    def index_directory(self) -> Path | None:
        return None if self.manifest.index is None else self.path / self.manifest.index.directory

    @property
    def combiners(self) -> dict[str, Path]:
        return {name: self.path / record.directory for name, record in self.manifest.combiners.items()}

    @cached_property
    def fingerprint(self) -> str:
        """Of the content: a hash of the checksums of all segments."""
        digest = hashlib.blake2b(digest_size=16)
        for segment in self.segments:
            for name, file in sorted(segment.record.files.items()):
                digest.update(f"{name} {file.blake2b}\n".encode())
        return digest.hexdigest()

    def covered_segments(self) -> frozenset[str]:
        """Names of the segments the index covers; none where the index is missing, so that it is built again."""
        if self.index_directory is None:
            return frozenset()
        try:
            config = json.loads((self.index_directory / "config.json").read_text(encoding="utf-8"))
            return frozenset(config["segments"])
        except (OSError, ValueError, KeyError, TypeError):
            return frozenset()

    def unfinished(self) -> list[Journal]:
        """Builds that were stopped: their finished blocks wait on disk for the same command."""
        directories = [directory for directory in entries(self.path / STAGING) if (directory / STAGED).is_dir()]
        return [journal for journal in map(Journal.read, directories) if journal is not None]

    def keys(self, ids: Ids) -> npt.NDArray[np.float16]:
        """fp16 [..., dim] for ids [...]; zeros where the id is −1."""
        return self._gather([segment.keys for segment in self.segments], ids, 0)

    def values(self, ids: Ids) -> npt.NDArray[np.int32]:
        """int32 [...] for ids [...]; −1 where the id is −1."""
        return self._gather([segment.values for segment in self.segments], ids, -1)

    def log_confidence(self, ids: Ids) -> npt.NDArray[np.float32]:
        """float32 [...] for ids [...]; 0 where the id is −1."""
        return self._gather([segment.confidence for segment in self.segments], ids, 0)

    def _gather(self, columns: Sequence[npt.NDArray[Any]], ids: Ids, missing: int) -> npt.NDArray[Any]:
        """Rows of a column by id. Raises IndexError for an id the store does not have."""
        ids = np.asarray(ids, dtype=np.int64)
        if len(columns) == 1:
            rows = ids - (self.segments[0].number << ROW_BITS)
            absent = rows < 0  # ids of later segments lie beyond the last row, where np.take raises
            if not absent.any():
                return np.take(columns[0], rows, axis=0)
            if (ids[absent] >= 0).any():
                raise IndexError(_UNKNOWN)
            rows[absent] = 0
            gathered = np.take(columns[0], rows, axis=0)
            gathered[absent] = missing
            return gathered
        numbers = ids >> ROW_BITS
        gathered = np.full(ids.shape + columns[0].shape[1:], missing, dtype=columns[0].dtype)
        found = np.count_nonzero(ids < 0)
        for segment, column in zip(self.segments, columns, strict=True):
            here = numbers == segment.number
            rows = ids[here] & ((1 << ROW_BITS) - 1)
            gathered[here] = np.take(column, rows, axis=0)
            found += len(rows)
        if found != ids.size:
            raise IndexError(_UNKNOWN)
        return gathered

    def provenance(self, ids: Ids) -> list[Provenance]:
        """Where each of the pairs comes from; ids [n]. Raises IndexError for an id the store does not have."""
        return [self._provenance(pair) for pair in np.asarray(ids, dtype=np.int64).tolist()]

    def _provenance(self, pair: int) -> Provenance:
        number, row = pair >> ROW_BITS, pair & ((1 << ROW_BITS) - 1)
        if number not in self._by_number:
            raise IndexError(_UNKNOWN)
        segment = self._by_number[number]
        sentence = int(segment.sentence[row])
        source, target, origin, line = (
            segment.sentence_table[name][sentence].as_py() for name in ("source", "target", "origin", "line")
        )
        return Provenance(source, target, origin, line, int(segment.position[row]), number << ROW_BITS | sentence)

    def contains(
        self, hashes: npt.NDArray[np.uint64], which: Literal["pair", "source", "target"] = "pair"
    ) -> npt.NDArray[np.bool_]:
        """Which of the hashes (`knnmt.corpus.pair_hash`, `text_hash`) [m] are those of a stored sentence."""
        hashes = np.asarray(hashes, dtype=np.uint64)
        found = np.zeros(hashes.shape, dtype=np.bool_)
        for segment in self.segments:
            found |= np.isin(hashes, segment.sentence_table[f"{which}_hash"].to_numpy())
        return found

    def sizes(self) -> dict[str, int]:
        """Bytes on disk by part."""
        names = {part: [f"{part}.npy"] for part in ("keys", "values", "confidence")}
        names["provenance"] = ["sentence.npy", "position.npy", SENTENCES]
        sizes = {
            part: sum(segment.record.files[name].bytes for segment in self.segments for name in files)
            for part, files in names.items()
        }
        sizes["index"] = 0 if self.index_directory is None else size_on_disk(self.index_directory)
        sizes[COMBINERS] = sum(size_on_disk(directory) for directory in self.combiners.values())
        sizes[STAGING] = size_on_disk(self.path / STAGING)
        return sizes
