"""A store opened for reading."""

import json
import weakref
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from knnmt.datastore.entries import Entries
from knnmt.datastore.files import check_name, entries, reading_errors, size_on_disk
from knnmt.datastore.ids import Ids, split_ids
from knnmt.datastore.lease import Lease
from knnmt.datastore.manifest import COMBINERS, SEGMENTS, STAGING, Manifest, read_manifest
from knnmt.datastore.model_record import ModelRecord
from knnmt.datastore.segment import SENTENCES, Segment, sampled_problem
from knnmt.datastore.staging import SEGMENT as STAGED
from knnmt.datastore.staging import Journal
from knnmt.errors import StoreError


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a pair comes from; `sentence` tells sentences apart within the store."""

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
        store.entries.keys(neighbours.ids)      # fp16 [rows, k, dim]
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
    def entries(self) -> Entries:
        """All its rows."""
        return Entries(self.segments)

    @property
    def fingerprint(self) -> str:
        """Of the content."""
        return self.entries.fingerprint

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

    def provenance(self, ids: Ids) -> list[Provenance]:
        """Where each of the entries comes from; ids [n]. Raises IndexError for an id the store does not have."""
        sentences, positions = self.entries.sentence(ids), self.entries.position(ids)
        columns = (sentences, *split_ids(sentences), positions)
        return [self._provenance(*each) for each in zip(*(column.tolist() for column in columns), strict=True)]

    def _provenance(self, sentence: int, number: int, row: int, position: int) -> Provenance:
        table = self._by_number[number].sentence_table
        source, target, origin, line = (table[name][row].as_py() for name in ("source", "target", "origin", "line"))
        return Provenance(source, target, origin, line, position, sentence)

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
