"""Everything that a manifest names, opened together."""

import weakref
from pathlib import Path
from typing import Self

from knnmt.datastore.config_file import ConfigFile
from knnmt.datastore.files import reading_errors
from knnmt.datastore.index_record import FIX as REBUILD
from knnmt.datastore.lease import Lease
from knnmt.datastore.manifest import MAIN, SEGMENTS, Manifest, read_manifest
from knnmt.datastore.segment import Segment, sampled_problem
from knnmt.datastore.view import FIX as REMAKE
from knnmt.datastore.view import View
from knnmt.errors import StoreError

REFIT = "fit it again with `knnmt fit`, or remove it with `knnmt forget`"


class Snapshot:
    """Maps segments and masks, reads configs, and holds a lease on the directories of indexes and combiners.

    A damaged segment raises `StoreError`. A damaged index, combiner or view does not: its `problem` says what is wrong.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        # Taken before anything is read, and kept as long as an index or a combiner may still be opened.
        lease = Lease(path / record.directory for record in manifest.derived())
        weakref.finalize(self, lease.release)
        self.segments = tuple(
            Segment(path / SEGMENTS / record.name, record, manifest.model.dim) for record in manifest.segments
        )
        for segment in self.segments:
            if problem := sampled_problem(segment, manifest.model.vocab_size):
                raise StoreError(problem)
        self.indexes = {
            name: ConfigFile.read(path / record.directory, REBUILD if name == MAIN else REMAKE)
            for name, record in manifest.indexes.items()
        }
        self.combiners = {
            name: ConfigFile.read(path / record.directory, REFIT) for name, record in manifest.combiners.items()
        }
        self.views = {name: View.read(path, record.mask, self.segments) for name, record in manifest.views.items()}
        configs = [*self.indexes.values(), *self.combiners.values()]
        problems = [*(config.problem for config in configs), *(view.problem for view in self.views.values())]
        self._complete = lease.complete and problems.count(None) == len(problems)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises `StoreError` if there is no store, if its format is newer, or if segments are missing or damaged."""
        while True:
            manifest = read_manifest(path)
            # After this read, one writer may commit and the next one remove old directories. Then try again.
            try:
                with reading_errors(path):
                    opened = cls(path, manifest)
                if opened._complete or read_manifest(path) == manifest:
                    return opened
            except StoreError:
                if read_manifest(path) == manifest:
                    raise
