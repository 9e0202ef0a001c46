"""A store opened for reading."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from knnmt.datastore.config_file import ConfigFile
from knnmt.datastore.entries import Entries
from knnmt.datastore.files import check_name, listing, size_on_disk
from knnmt.datastore.ids import Ids, split_ids
from knnmt.datastore.index_record import read_index_record
from knnmt.datastore.manifest import COMBINERS, INDEX, MAIN, SOURCES, STAGING, VIEWS, read_manifest
from knnmt.datastore.model_record import ModelRecord
from knnmt.datastore.segment import SENTENCES
from knnmt.datastore.snapshot import Snapshot
from knnmt.datastore.source_vectors import FIX as NO_VECTORS
from knnmt.datastore.source_vectors import SourceVectors
from knnmt.datastore.staging import SEGMENT as STAGED
from knnmt.datastore.staging import Journal
from knnmt.errors import StoreError


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an entry comes from; `sentence` is unique within the store."""

    source: str
    target: str
    origin: str
    line: int
    position: int
    sentence: int


class Store:
    """An immutable snapshot: everything that the manifest named when the store was opened, with all configs.

    Later commits do not change it, and no writer removes its files while this object exists. `latest` returns the
    store as it is now, `view` the same snapshot restricted to some rows.

    Example:
        store = Store.open("memory")
        store.entries.keys(neighbours.ids)      # fp16 [rows, k, dim]
    """

    def __init__(self, snapshot: Snapshot, view: str | None = None) -> None:
        """Open the whole store, or one of its views, whose entries are only the live rows."""
        self._snapshot = snapshot
        self._view = view
        self.path = snapshot.path
        self.manifest = snapshot.manifest
        self.entries = Entries(snapshot.segments) if view is None else snapshot.views[view].entries(snapshot.segments)
        self.segments = self.entries.segments
        self._by_number = {segment.number: segment for segment in self.segments}

    @classmethod
    def open(cls, store: "str | Path | Store") -> "Store":
        """Open a store by its directory; a store that is already open is returned as it is.

        Raises `StoreError` if there is no store, if its format is newer, or if segments are missing or damaged. A
        damaged index, combiner or view raises only when it is used.
        """
        if isinstance(store, Store):
            return store
        path = Path(store)
        check_name(path)
        return cls(Snapshot.open(path))

    def latest(self) -> "Store":
        """The store, or the same view of it, as it is now; this object if nothing was committed since it was opened."""
        if read_manifest(self.path) == self.manifest:
            return self
        newest = Store.open(self.path)
        return newest if self._view is None else newest.view(self._view)

    def view(self, name: str) -> "Store":
        """This snapshot with only the rows of the view, and with the view's index, if it has one.

        Segments that were added after the view are not part of it. A sentence is part of it if one of its entries is.
        """
        self.manifest.view(name)
        if problem := self._snapshot.views[name].problem:
            raise StoreError(problem)
        return Store(self._snapshot, name)

    @property
    def model(self) -> ModelRecord:
        return self.manifest.model

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def entry_count(self) -> int:
        return len(self.entries)

    @property
    def sentence_count(self) -> int:
        """Sentences that count: in a view, those with at least one live entry."""
        live = self.entries.sentence_mask
        return sum(
            int(np.count_nonzero(live[each.name])) if each.name in live else each.record.sentences
            for each in self.segments
        )

    @property
    def index_config(self) -> ConfigFile | None:
        """The config of the index over these entries; None if there is no index."""
        name = MAIN if self._view is None else self.manifest.views[self._view].index
        return None if name is None else self._snapshot.indexes.get(name)

    @property
    def index_directory(self) -> Path | None:
        return None if self.index_config is None else self.index_config.directory

    @property
    def combiners(self) -> dict[str, Path]:
        return {name: config.directory for name, config in self.combiner_configs.items()}

    @property
    def combiner_configs(self) -> Mapping[str, ConfigFile]:
        return self._snapshot.combiners

    @cached_property
    def source_vectors(self) -> list[SourceVectors]:
        """The source vectors of each of its segments. Raises `StoreError` if they are missing or damaged."""
        known = self.manifest.sources
        for segment in self.segments:
            if segment.name not in known:
                raise StoreError(f"{self.path} has no source vectors of segment {segment.name}; {NO_VECTORS}")
        vocabulary = self.model.vocab_size
        return [SourceVectors.read(self.path, known[each.name], each, vocabulary) for each in self.segments]

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the content: the segments, and which rows count."""
        return self.entries.fingerprint

    def covered_segments(self) -> frozenset[str]:
        """Names of the segments that the index covers.

        Empty if the index is missing, damaged or of other segments, so that it is rebuilt.
        """
        record = None if self.index_config is None else read_index_record(self.index_config)
        return frozenset(record.segments) if record is not None and record.is_of(self.entries) else frozenset()

    def unfinished(self) -> list[Journal]:
        """Interrupted builds, whose finished blocks are on disk; the same command continues them."""
        directories = [directory for directory in listing(self.path / STAGING) if (directory / STAGED).is_dir()]
        return [journal for journal in map(Journal.read, directories) if journal is not None]

    def provenance(self, ids: Ids) -> list[Provenance]:
        """Where each entry comes from; ids [n]. Raises IndexError for an id that the store does not have."""
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
        """Which of the hashes (`knnmt.corpus.pair_hash`, `text_hash`) belong to a sentence that counts.  # [m]"""
        hashes = np.asarray(hashes, dtype=np.uint64)
        found = np.zeros(hashes.shape, dtype=np.bool_)
        for segment in self.segments:
            stored = segment.sentence_table[f"{which}_hash"].to_numpy()
            live = self.entries.sentence_mask.get(segment.name)
            found |= np.isin(hashes, stored if live is None else stored[live])
        return found

    def sizes(self) -> dict[str, int]:
        """Bytes on disk per part."""
        names = {part: [f"{part}.npy"] for part in ("keys", "values", "confidence")}
        names["provenance"] = ["sentence.npy", "position.npy", SENTENCES]
        sizes = {
            part: sum(segment.record.files[name].bytes for segment in self.segments for name in files)
            for part, files in names.items()
        }
        derived = {SOURCES: self.manifest.sources, INDEX: self.manifest.indexes, COMBINERS: self.manifest.combiners}
        for part, records in derived.items():
            sizes[part] = sum(size_on_disk(self.path / record.directory) for record in records.values())
        sizes[VIEWS] = sum(size_on_disk(self.path / record.mask.directory) for record in self.manifest.views.values())
        sizes[STAGING] = size_on_disk(self.path / STAGING)
        return sizes
