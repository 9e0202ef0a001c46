"""Adding to a store: everything new goes to new directories, and one replacement of the manifest names them."""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from knnmt.datastore.file_record import measure_files
from knnmt.datastore.files import entries, remove, storage_errors, sync_directory, sync_tree
from knnmt.datastore.lease import remove_unless_held
from knnmt.datastore.lock import LOCK, DirectoryLock
from knnmt.datastore.manifest import (
    COMBINERS,
    INDEX,
    MANIFEST,
    SEGMENTS,
    STAGING,
    DirectoryRecord,
    Manifest,
    check_combiner_name,
    read_manifest,
    write_manifest,
)
from knnmt.datastore.model_record import ModelRecord, at_its_place, check_same_model
from knnmt.datastore.segment import Segment
from knnmt.datastore.staging import SEGMENT, Journal, StagedSegment, discard
from knnmt.datastore.store import Store
from knnmt.errors import StoreError

TAIL_PAIRS = 20_000  # a smaller last segment without index is rewritten together with what is added

_PARTS = (SEGMENTS, INDEX, COMBINERS)
_NEW_MANIFEST = f"{MANIFEST}.new"
_OWN = {*_PARTS, STAGING, LOCK, _NEW_MANIFEST}  # what an unfinished first build may have left


@dataclass(frozen=True)
class Plan:
    """The segments a store will have once `staged` is committed, under their final names.

    `new` is the one that is not there yet; None if there is nothing to add.
    """

    segments: tuple[Segment, ...]
    new: Segment | None
    staged: StagedSegment


class StoreWriter:
    """The only one who writes to a store; a context manager that holds its lock.

    Leaving it without a commit leaves the store as it was, or none; finished blocks stay in `staging/`.

    Example:
        with StoreWriter("memory", model) as writer:
            staged = writer.stage(key)                      # takes up the blocks of a killed build
            for block in blocks[staged.blocks :]:
                staged.append(*block, state={})
            plan = writer.plan(staged)
            index = writer.new_directory("index")           # … build it over plan.segments
            writer.commit(plan, index=index)
    """

    def __init__(self, path: str | Path, model: ModelRecord, wait: bool = False) -> None:
        """`wait` for another writer to finish; otherwise a `StoreBusyError` says that there is one."""
        self.path = Path(path)
        self.model = model
        self.wait = wait
        self.store: Store | None = None
        self._unnamed: list[Path] = []  # directories given out and not committed

    def __enter__(self) -> Self:
        with storage_errors(self.path):
            self._refuse_foreign_directory()
            self._lock = DirectoryLock(self.path, self.wait)
            try:
                if (self.path / MANIFEST).exists():
                    self.store = Store.open(self.path)
                    check_same_model(self.path, self.store.model, self.model)
                self._recover()
                self._sweep()
            except BaseException:
                self._leave()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        with suppress(OSError, StoreError):  # what cannot be tidied up now the next writer sweeps
            self._recover()
            named = self._named()
            for directory in self._unnamed:
                if directory.relative_to(self.path).as_posix() not in named:
                    remove(directory)
        if self._is_bare():
            self._lock.release_and_remove()
        else:
            self._lock.release()

    def stage(self, key: str) -> StagedSegment:
        """The segment in the making under `key`, a hash of all it depends on; empty unless a build was killed."""
        committed = [segment.record for segment in self.store.segments] if self.store is not None else []
        with storage_errors(self.path):
            return StagedSegment(self.path / STAGING / key, self.model.dim, committed)

    def plan(self, staged: StagedSegment) -> Plan:
        """Finish a staged segment, joined with a small last segment that no index covers; nothing is committed."""
        present = self.store.segments if self.store is not None else ()
        if staged.committed or (present and staged.rows == 0):
            return Plan(present, None, staged)
        if staged.rows == 0:
            raise StoreError(f"nothing to store in {self.path}: no sentence of the corpus gave a pair; give another")
        tail = self._tail()
        new = staged.finish(self._next_segment_name(), tail)
        kept = present if tail is None else present[:-1]
        return Plan((*kept, new), new, staged)

    def new_directory(self, kind: Literal["index", "combiners"], name: str | None = None) -> Path:
        """A new empty directory to fill and give to `commit`; `name` is the combiner's."""
        if (name is None) != (kind == INDEX):
            raise ValueError("a combiner's directory has a name, an index's has none")
        if name is not None:
            check_combiner_name(name)
        stem = "" if name is None else f"{name}."
        with storage_errors(self.path):
            taken = {entry.name for entry in entries(self.path / kind)}
            taken |= {place.removeprefix(f"{kind}/") for place in self._named()}
            numbers = [name.removeprefix(stem) for name in taken if name.startswith(stem)]
            number = max((int(number) for number in numbers if number.isdecimal()), default=0) + 1
            directory = self.path / kind / f"{stem}{number:06d}"
            directory.mkdir(parents=True)
        self._unnamed.append(directory)
        return directory

    def commit(
        self,
        plan: Plan | None = None,
        *,
        index: Path | None = None,
        combiner: tuple[str, Path] | None = None,
    ) -> Store:
        """Name what is new in the manifest, all at once; the store as it is then.

        What is left of the plan's own build in `staging/` is removed afterwards; other unfinished builds stay.
        """
        if self.store is None and (plan is None or plan.new is None):
            raise ValueError("a store begins with a segment")
        named = [directory for directory in (index, combiner and combiner[1]) if directory is not None]
        if not set(named) <= set(self._unnamed):
            raise ValueError("only a directory made by new_directory can be committed")
        with storage_errors(self.path):
            if plan is not None and plan.new is not None:
                self._move_in_place(plan.new)
            for directory in named:
                sync_tree(directory)
            sync_directory(self.path)
            self._replace_manifest(self._manifest_with(plan, index, combiner))
        self._unnamed = [directory for directory in self._unnamed if directory not in named]
        if plan is not None:
            with suppress(OSError):  # the next commit of the same plan tries again
                discard(plan.staged.directory)
                self._remove_empty_staging()
        return self.opened

    @property
    def opened(self) -> Store:
        """The store as it is; there is none before the first commit."""
        if self.store is None:
            raise ValueError("nothing was committed yet")
        return self.store

    def choose(self, default: str | None) -> Store:
        """Name the combiner, or the base model, that is used when nobody names one; None: the best fitted."""
        return self._replace_manifest(replace(self.opened.manifest, default=default))

    def forget(self, combiner: str) -> Store:
        """Take a combiner out of the store, and out of the choice; the next writer removes its files."""
        manifest = self.opened.manifest
        kept = {name: record for name, record in manifest.combiners.items() if name != combiner}
        default = None if manifest.default == combiner else manifest.default
        return self._replace_manifest(replace(manifest, combiners=kept, default=default))

    def drop_staged(self) -> int:
        """Remove the finished blocks of all unfinished builds; how many builds that were."""
        with storage_errors(self.path):
            directories = entries(self.path / STAGING)
            for directory in directories:
                discard(directory)
            self._remove_empty_staging()
        return len(directories)

    def _remove_empty_staging(self) -> None:
        if (self.path / STAGING).is_dir() and not entries(self.path / STAGING):
            (self.path / STAGING).rmdir()

    def _replace_manifest(self, manifest: Manifest) -> Store:
        with storage_errors(self.path):
            if self.store is None or manifest != self.store.manifest:
                write_manifest(self.path, manifest)
        self.store = Store.open(self.path)
        return self.store

    def _manifest_with(self, plan: Plan | None, index: Path | None, combiner: tuple[str, Path] | None) -> Manifest:
        manifest = self.store.manifest if self.store is not None else Manifest(self.model, (), None, {})
        manifest = replace(manifest, model=at_its_place(manifest.model, self.model))
        if plan is not None:
            number = manifest.next_segment if plan.new is None else plan.new.number + 1
            segments = tuple(segment.record for segment in plan.segments)
            manifest = replace(manifest, segments=segments, next_segment=number)
        if index is not None:
            manifest = replace(manifest, index=self._record(index))
        if combiner is not None:
            name, directory = combiner
            manifest = replace(manifest, combiners=manifest.combiners | {name: self._record(directory)})
        return manifest

    def _record(self, directory: Path) -> DirectoryRecord:
        names = [entry.name for entry in entries(directory)]
        return DirectoryRecord(directory.relative_to(self.path).as_posix(), measure_files(directory, names))

    def _tail(self) -> Segment | None:
        if self.store is None:
            return None
        last = self.store.segments[-1]
        small = len(last) < TAIL_PAIRS and last.name not in self.store.covered_segments()
        return last if small else None

    def _next_segment_name(self) -> str:
        return f"{self.store.manifest.next_segment if self.store is not None else 1:06d}"

    def _move_in_place(self, segment: Segment) -> None:
        place = self.path / SEGMENTS / segment.name
        place.parent.mkdir(exist_ok=True)
        os.rename(segment.path, place)
        sync_directory(segment.path.parent)
        sync_directory(place.parent)

    def _named(self) -> set[str]:
        """What the manifest on disk names: after a failed commit it may be the new one."""
        return read_manifest(self.path).named() if (self.path / MANIFEST).exists() else set()

    def _recover(self) -> None:
        """Put a segment that was moved in place but not named back to where its build looks for it."""
        named = self._named()
        for directory in entries(self.path / STAGING):
            journal = Journal.read(directory)
            if journal is None:
                remove(directory)  # killed before its first block was finished
            elif journal.finished is not None and not (directory / SEGMENT).exists():
                place = f"{SEGMENTS}/{journal.finished.name}"
                if place not in named and (self.path / place).exists():
                    os.rename(self.path / place, directory / SEGMENT)

    def _sweep(self) -> None:
        """Remove what the manifest does not name: the remains of killed writers and of older versions."""
        named = self._named()
        remove(self.path / _NEW_MANIFEST)
        for part in _PARTS:
            for entry in entries(self.path / part):
                if f"{part}/{entry.name}" not in named:
                    remove_unless_held(entry)

    def _refuse_foreign_directory(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is a file; name a directory for the store")
        names = {entry.name for entry in entries(self.path)}
        unfinished = LOCK in names and names <= _OWN
        if names and MANIFEST not in names and not unfinished:
            raise StoreError(f"{self.path} is neither empty nor a store; choose another directory")

    def _is_bare(self) -> bool:
        """Remove parts that hold nothing; whether then nothing but the lock is left."""
        with suppress(OSError):
            for part in (*_PARTS, STAGING):
                if (self.path / part).is_dir() and not entries(self.path / part):
                    (self.path / part).rmdir()
            return {entry.name for entry in entries(self.path)} <= {LOCK}
        return False
