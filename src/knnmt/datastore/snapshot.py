"""Everything that a manifest names, opened at one moment."""

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
    """Segments and masks mapped, configs read, and the directories of indexes and combiners held for later.

    A damaged segment raises `StoreError`. A damaged index, combiner or view does not: its `problem` says what is wrong.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        # Held before anything is read, and for as long as an index or a combiner may still have to be opened.
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
        """Raises `StoreError` where there is no store, a newer one, or one with missing or damaged segments."""
        while True:
            manifest = read_manifest(path)
            # A writer may commit, and the next one sweep, between the manifest and what it names: then once more.
            try:
                with reading_errors(path):
                    opened = cls(path, manifest)
                if opened._complete or read_manifest(path) == manifest:
                    return opened
            except StoreError:
                if read_manifest(path) == manifest:
                    raise
