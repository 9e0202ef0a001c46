"""The directory of a store: what belongs to it, and removal of everything else."""

import os
from contextlib import suppress
from pathlib import Path

from knnmt.datastore.files import listing, remove
from knnmt.datastore.lease import remove_unless_held
from knnmt.datastore.lock import LOCK
from knnmt.datastore.manifest import COMBINERS, INDEX, MANIFEST, SEGMENTS, SOURCES, STAGING, VIEWS, read_manifest
from knnmt.datastore.staging import SEGMENT, Journal
from knnmt.errors import StoreError

_PARTS = (SEGMENTS, SOURCES, INDEX, COMBINERS, VIEWS)
_NEW_MANIFEST = f"{MANIFEST}.new"
_OWN = {*_PARTS, STAGING, LOCK, _NEW_MANIFEST}  # what an unfinished first build may leave


class StoreDirectory:
    """Finds what belongs to a store and cleans up the rest; only for the writer that holds the lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def named(self) -> set[str]:
        """What the manifest on disk names; after a failed commit this may be the new manifest."""
        return read_manifest(self.path).named() if (self.path / MANIFEST).exists() else set()

    def refuse_foreign(self) -> None:
        """Raise `StoreError` if the path is something other than a store."""
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is a file; name a directory for the store")
        names = {path.name for path in listing(self.path)}
        unfinished = LOCK in names and names <= _OWN
        if names and MANIFEST not in names and not unfinished:
            raise StoreError(f"{self.path} is neither empty nor a store; choose another directory")

    def recover(self) -> None:
        """Move a segment that is in `segments/` but not in the manifest back to `staging/`, where its build looks."""
        named = self.named()
        for directory in listing(self.path / STAGING):
            journal = Journal.read(directory)
            if journal is None:
                remove(directory)  # killed before its first block was finished
            elif journal.finished is not None and not (directory / SEGMENT).exists():
                name = f"{SEGMENTS}/{journal.finished.name}"
                if name not in named and (self.path / name).exists():
                    os.rename(self.path / name, directory / SEGMENT)

    def sweep(self) -> None:
        """Remove what the manifest does not name: leftovers of killed writers and replaced directories."""
        named = self.named()
        remove(self.path / _NEW_MANIFEST)
        for part in _PARTS:
            for path in listing(self.path / part):
                if f"{part}/{path.name}" not in named:
                    remove_unless_held(path)

    def is_bare(self) -> bool:
        """Remove empty subdirectories; return whether only the lock is left."""
        with suppress(OSError):
            for part in (*_PARTS, STAGING):
                if (self.path / part).is_dir() and not listing(self.path / part):
                    (self.path / part).rmdir()
            return {path.name for path in listing(self.path)} <= {LOCK}
        return False
