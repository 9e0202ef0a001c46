"""A store opened for reading."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from knnmt.datastore.files import check_name, size_on_disk
from knnmt.datastore.manifest import COMBINERS, SEGMENTS, STAGING, Manifest, read_manifest
from knnmt.datastore.model_record import ModelRecord
from knnmt.datastore.segment import SENTENCES, Segment, problems
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
    """What the manifest named when the store was opened; a later commit does not change it.

    Example:
        store = Store.open("memory")
        store.keys(neighbours.ids)      # fp16 [rows, k, dim]
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        dim = manifest.model.dim
        self.segments: tuple[Segment, ...] = tuple(
            Segment(path / SEGMENTS / record.name, record, dim) for record in manifest.segments
        )
        self._by_number = {segment.number: segment for segment in self.segments}

    @classmethod
    def open(cls, path: "str | Path | Store") -> Self:
        """A store by its directory; of an opened one, what its manifest names now.

        Raises `StoreError` where there is no store, a newer one, or one with missing or truncated files.
        """
        path = path.path if isinstance(path, Store) else Path(path)
        check_name(path)
        while True:
            manifest = read_manifest(path)
            try:
                return cls(path, manifest)
            except StoreError:
                # A writer may have committed, and the next one swept, between the manifest and its segments.
                if read_manifest(path) == manifest:
                    raise

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
        return None if self.manifest.index is None else self.path / self.manifest.index

    @property
    def combiners(self) -> dict[str, Path]:
        return {name: self.path / directory for name, directory in self.manifest.combiners.items()}

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

    def verify(self) -> list[str]:
        """Reads every byte of the store and tells what is not as the manifest says."""
        return verify(self.path)


def verify(path: str | Path) -> list[str]:
    """`Store.verify` for a store that may be too damaged to open: a sentence for each problem found."""
    path = Path(path)
    manifest = read_manifest(path)
    found = [problem for record in manifest.segments for problem in problems(path / SEGMENTS / record.name, record)]
    derived = [("index", manifest.index), *((f"combiner {n}", d) for n, d in manifest.combiners.items())]
    for what, directory in derived:
        if directory is not None and not (path / directory / "config.json").is_file():
            found.append(f"the {what} in {path / directory} is missing; build or fit it again")
    return found
