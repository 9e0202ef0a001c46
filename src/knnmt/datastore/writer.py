"""Writing to a store: new data goes to new directories, and one replacement of the manifest adds them."""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from knnmt.datastore.entries import Entries
from knnmt.datastore.file_record import measure_files
from knnmt.datastore.files import listing, remove, storage_errors, sync_directory, sync_tree
from knnmt.datastore.lock import DirectoryLock
from knnmt.datastore.manifest import (
    COMBINERS,
    INDEX,
    MAIN,
    MANIFEST,
    SEGMENTS,
    STAGING,
    VIEWS,
    DirectoryRecord,
    Manifest,
    ViewRecord,
    check_combiner_name,
    check_view_name,
    write_manifest,
)
from knnmt.datastore.model_record import ModelRecord, check_same_model, relocated
from knnmt.datastore.segment import Segment
from knnmt.datastore.staging import StagedSegment, discard
from knnmt.datastore.store import Store
from knnmt.datastore.store_directory import StoreDirectory
from knnmt.datastore.view import write_view
from knnmt.errors import StoreError

TAIL_ENTRIES = 20_000  # a smaller last segment, in no index or view, is merged with the new segment


@dataclass(frozen=True)
class Plan:
    """The segments that a store will have after `staged` is committed, under their final names.

    `new` is the segment to add; None if there is nothing to add.
    """

    segments: tuple[Segment, ...]
    new: Segment | None
    staged: StagedSegment


class StoreWriter:
    """Writes to a store; a context manager that holds the store's lock, so that there is one writer at a time.

    Without a commit the store stays as it was, or does not exist; finished blocks stay in `staging/`.

    Example:
        with StoreWriter("memory", model) as writer:
            staged = writer.stage(key)                      # continues after the blocks of a killed build
            for block in blocks[staged.blocks :]:
                staged.append(*block, state={})
            plan = writer.plan(staged)
            index = writer.new_directory("index")           # build it over plan.segments
            writer.commit(plan, index=index)
    """

    def __init__(self, path: str | Path, model: ModelRecord, wait: bool = False) -> None:
        """`wait` for another writer to finish; otherwise raise `StoreBusyError` if there is one."""
        self.path = Path(path)
        self._directory = StoreDirectory(self.path)
        self.model = model
        self.wait = wait
        self.store: Store | None = None
        self._unnamed: list[Path] = []  # directories created but not committed

    def __enter__(self) -> Self:
        with storage_errors(self.path):
            self._directory.refuse_foreign()
            self._lock = DirectoryLock(self.path, self.wait)
            try:
                if (self.path / MANIFEST).exists():
                    self.store = Store.open(self.path)
                    check_same_model(self.path, self.store.model, self.model)
                self._directory.recover()
                self._directory.sweep()
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
        with suppress(OSError, StoreError):  # the next writer removes what stays behind
            self._directory.recover()
            named = self._directory.named()
            for directory in self._unnamed:
                if directory.relative_to(self.path).as_posix() not in named:
                    remove(directory)
        if self._directory.is_bare():
            self._lock.release_and_remove()
        else:
            self._lock.release()

    def stage(self, key: str) -> StagedSegment:
        """The staged segment for `key`, a hash of everything it depends on; empty unless a build was killed."""
        committed = [segment.record for segment in self.store.segments] if self.store is not None else []
        with storage_errors(self.path):
            return StagedSegment(self.path / STAGING / key, self.model.dim, committed)

    def plan(self, staged: StagedSegment) -> Plan:
        """Finish a staged segment, merged with a small last segment that is in no index or view; commits nothing."""
        present = self.store.segments if self.store is not None else ()
        if staged.committed or (present and staged.rows == 0):
            return Plan(present, None, staged)
        if staged.rows == 0:
            raise StoreError(f"nothing to store in {self.path}: no sentence of the corpus gave an entry; give another")
        tail = self._tail()
        new = staged.finish(self._next_segment_name(), tail)
        kept = present if tail is None else present[:-1]
        return Plan((*kept, new), new, staged)

    def new_directory(self, kind: Literal["index", "combiners", "sources"], name: str | None = None) -> Path:
        """A new empty directory, to be filled and committed; `name` is that of the combiner or of the segment."""
        if (name is None) != (kind == INDEX):
            raise ValueError("an index's directory has no name, all others have one")
        if name is not None and kind == COMBINERS:
            check_combiner_name(name)
        return self._new_directory(kind, name)

    def _new_directory(self, part: str, name: str | None) -> Path:
        stem = "" if name is None else f"{name}."
        with storage_errors(self.path):
            taken = {path.name for path in listing(self.path / part)}
            taken |= {named.removeprefix(f"{part}/") for named in self._directory.named()}
            numbers = [name.removeprefix(stem) for name in taken if name.startswith(stem)]
            number = max((int(number) for number in numbers if number.isdecimal()), default=0) + 1
            directory = self.path / part / f"{stem}{number:06d}"
            directory.mkdir(parents=True)
        self._unnamed.append(directory)
        return directory

    def commit(
        self,
        plan: Plan | None = None,
        *,
        index: Path | None = None,
        combiner: tuple[str, Path] | None = None,
        sources: Mapping[str, Path] | None = None,
    ) -> Store:
        """Add everything new to the manifest at once, and return the new store; `sources` by segment name.

        The rest of the plan's build in `staging/` is removed afterwards; other unfinished builds stay.
        """
        if self.store is None and (plan is None or plan.new is None):
            raise ValueError("a store begins with a segment")
        with storage_errors(self.path):
            sources = sources or {}
            records = self._records(index, combiner and combiner[1], *sources.values())
            if plan is not None and plan.new is not None:
                self._move_in_place(plan.new)
            manifest = self._manifest_with(plan)
            vectors = {name: records[directory] for name, directory in sources.items()}
            manifest = replace(manifest, sources=manifest.sources | vectors)
            if index is not None:
                manifest = replace(manifest, indexes=manifest.indexes | {MAIN: records[index]})
            if combiner is not None:
                manifest = replace(manifest, combiners=manifest.combiners | {combiner[0]: records[combiner[1]]})
            store = self._commit(manifest, records)
        if plan is not None:
            with suppress(OSError):  # the next commit of the same plan tries again
                discard(plan.staged.directory)
                self._remove_empty_staging()
        return store

    def commit_view(self, name: str, entries: Entries, index: Path | None = None) -> Store:
        """Add a view: some rows of the store, searched as if there were no others. Replaces a view of that name.

        Args:
            name: name of the view; open it with `view(name)` of the returned store
            entries: entries of this store's segments, with the mask of the live rows
            index: index over these entries, in a directory from `new_directory`; None: the view is searched exactly
        """
        self.check_view(name, entries)
        mask = self._new_directory(VIEWS, name)
        with storage_errors(self.path):
            write_view(mask, entries)
            new = self._records(index, mask)
            manifest = _without_view(self._manifest_with(None), name)
            if index is not None:
                manifest = replace(manifest, indexes=manifest.indexes | {name: new[index]})
            view = ViewRecord(new[mask], None if index is None else name)
            return self._commit(replace(manifest, views=manifest.views | {name: view}), new)

    def check_view(self, name: str, entries: Entries) -> None:
        """Raise `StoreError` if there cannot be such a view: to be called before an index is built for it."""
        check_view_name(name)
        records = {segment.name: segment.record for segment in self.opened.segments}
        for segment in entries.segments:
            if records.get(segment.name) != segment.record:
                raise StoreError(
                    f"the view {name} is of segment {segment.name}, which is no longer in {self.path}; "
                    "open the store again"
                )
        if not len(entries):
            raise StoreError(f"the view {name} of {self.path} would leave nothing to search; keep some entries")

    def remove_view(self, name: str) -> Store:
        """Remove a view and its index from the store; the next writer removes their files."""
        manifest = self.opened.manifest
        manifest.view(name)
        return self._replace_manifest(_without_view(manifest, name))

    def _records(self, *directories: Path | None) -> dict[Path, DirectoryRecord]:
        """Records of new directories for the manifest; reads all their files for the checksums."""
        new = [directory for directory in directories if directory is not None]
        if not set(new) <= set(self._unnamed):
            raise ValueError("only a directory made by new_directory can be committed")
        return {directory: self._record(directory) for directory in new}

    def _commit(self, manifest: Manifest, new: Collection[Path]) -> Store:
        """Make sure that new directories are on disk, then replace the manifest by one that names them."""
        for directory in new:
            sync_tree(directory)
        sync_directory(self.path)
        store = self._replace_manifest(manifest)
        self._unnamed = [directory for directory in self._unnamed if directory not in new]
        return store

    @property
    def opened(self) -> Store:
        """The store as it is. Raises ValueError before the first commit."""
        if self.store is None:
            raise ValueError("nothing was committed yet")
        return self.store

    def choose(self, default: str | None) -> Store:
        """Set the combiner, or the base model, that is used by default; None: the best fitted one."""
        return self._replace_manifest(replace(self.opened.manifest, default=default))

    def forget(self, combiner: str) -> Store:
        """Remove a combiner from the store, and as its default; the next writer removes its files."""
        manifest = self.opened.manifest
        kept = {name: record for name, record in manifest.combiners.items() if name != combiner}
        default = None if manifest.default == combiner else manifest.default
        return self._replace_manifest(replace(manifest, combiners=kept, default=default))

    def drop_staged(self) -> int:
        """Remove the finished blocks of all unfinished builds; return the number of builds."""
        with storage_errors(self.path):
            directories = listing(self.path / STAGING)
            for directory in directories:
                discard(directory)
            self._remove_empty_staging()
        return len(directories)

    def _remove_empty_staging(self) -> None:
        if (self.path / STAGING).is_dir() and not listing(self.path / STAGING):
            (self.path / STAGING).rmdir()

    def _replace_manifest(self, manifest: Manifest) -> Store:
        with storage_errors(self.path):
            if self.store is None or manifest != self.store.manifest:
                write_manifest(self.path, manifest)
        self.store = Store.open(self.path)
        return self.store

    def _manifest_with(self, plan: Plan | None) -> Manifest:
        """The manifest of the store with the planned segments and the current path of the model."""
        manifest = self.store.manifest if self.store is not None else Manifest(self.model)
        manifest = replace(manifest, model=relocated(manifest.model, self.model))
        if plan is not None:
            number = manifest.next_segment if plan.new is None else plan.new.number + 1
            segments = tuple(segment.record for segment in plan.segments)
            names = {segment.name for segment in segments}
            sources = {name: record for name, record in manifest.sources.items() if name in names}
            manifest = replace(manifest, segments=segments, sources=sources, next_segment=number)
        return manifest

    def _record(self, directory: Path) -> DirectoryRecord:
        names = [path.name for path in listing(directory)]
        return DirectoryRecord(directory.relative_to(self.path).as_posix(), measure_files(directory, names))

    def _tail(self) -> Segment | None:
        if self.store is None:
            return None
        last = self.store.segments[-1]
        masks = [view.mask.files for view in self.store.manifest.views.values()]
        used = last.name in self.store.covered_segments() or any(f"{last.name}.npy" in files for files in masks)
        return last if len(last) < TAIL_ENTRIES and not used else None

    def _next_segment_name(self) -> str:
        return f"{self.store.manifest.next_segment if self.store is not None else 1:06d}"

    def _move_in_place(self, segment: Segment) -> None:
        final = self.path / SEGMENTS / segment.name
        final.parent.mkdir(exist_ok=True)
        os.rename(segment.path, final)
        sync_directory(segment.path.parent)
        sync_directory(final.parent)


def _without_view(manifest: Manifest, name: str) -> Manifest:
    views = {other: record for other, record in manifest.views.items() if other != name}
    used = {MAIN, *(record.index for record in views.values())}
    return replace(manifest, views=views, indexes={n: record for n, record in manifest.indexes.items() if n in used})
