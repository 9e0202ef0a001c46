"""manifest.json: lists everything that belongs to a store; the only file that is ever replaced."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from knnmt.datastore.file_record import FileRecord
from knnmt.datastore.files import listing, why_unreadable, write_json
from knnmt.datastore.model_record import ModelRecord
from knnmt.errors import StoreError

FORMAT = 3
MANIFEST = "manifest.json"
SEGMENTS, INDEX, COMBINERS, VIEWS, STAGING = "segments", "index", "combiners", "views", "staging"
SOURCES = "sources"
MAIN = "main"  # name of the index over the whole store

_NUMBER = r"\d{6,}"
_NAME = r"[\w-][\w.-]*"


@dataclass(frozen=True)
class SegmentRecord:
    """The manifest's record of a segment: counts, and one `FileRecord` per file name."""

    name: str
    entries: int
    sentences: int
    files: dict[str, FileRecord]

    @property
    def checksum(self) -> str:
        """Checksum of the content: a digest of the files' checksums."""
        digest = hashlib.blake2b(digest_size=16)
        for name, file in sorted(self.files.items()):
            digest.update(f"{name} {file.blake2b}\n".encode())
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        counts = {"entries": self.entries, "sentences": self.sentences}
        return {"name": self.name, **counts, "files": _files_json(self.files)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        name = _matching(_NUMBER, value["name"])
        entries = value["entries" if "entries" in value else "pairs"]  # pairs: before format 3
        return cls(name, int(entries), int(value["sentences"]), _files_from_json(value["files"]))


@dataclass(frozen=True)
class DirectoryRecord:
    """The manifest's record of something derived, such as an index: its directory, and one `FileRecord` per file name.

    `files` is empty for format 1, which has no checksums of these.
    """

    directory: str
    files: dict[str, FileRecord]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())

    def to_json(self) -> dict[str, Any]:
        return {"directory": self.directory, "files": _files_json(self.files)}

    @classmethod
    def from_json(cls, value: dict[str, Any] | str, pattern: str) -> Self:
        if isinstance(value, str):  # format 1
            value = {"directory": value, "files": {}}
        return cls(_matching(pattern, value["directory"]), _files_from_json(value["files"]))


@dataclass(frozen=True)
class ViewRecord:
    """The manifest's record of a view: its mask, one file per segment, and the name of its index, or None."""

    mask: DirectoryRecord
    index: str | None

    def to_json(self) -> dict[str, Any]:
        return {"mask": self.mask.to_json(), "index": self.index}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        mask = DirectoryRecord.from_json(value["mask"], rf"{VIEWS}/{_NAME}\.{_NUMBER}")
        for name in mask.files:
            _matching(rf"{_NUMBER}\.npy", name)
        return cls(mask, value["index"])


def _files_json(files: dict[str, FileRecord]) -> dict[str, Any]:
    return {name: file.to_json() for name, file in files.items()}


def _files_from_json(value: dict[str, Any]) -> dict[str, FileRecord]:
    return {_matching(_NAME, name): FileRecord.from_json(file) for name, file in value.items()}


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json; directories are relative to the store.

    `sources` has the source vectors of segments, by segment name. `indexes` has the index over the whole store under
    the name `MAIN`, and the indexes of views. `default` is the combiner that the user chose, or the base model's name;
    None: the best fitted one. `next_segment` is the number of the next segment. It never decreases, so that an id never
    refers to another entry.
    """

    model: ModelRecord
    segments: tuple[SegmentRecord, ...] = ()
    sources: dict[str, DirectoryRecord] = field(default_factory=dict)
    indexes: dict[str, DirectoryRecord] = field(default_factory=dict)
    views: dict[str, ViewRecord] = field(default_factory=dict)
    combiners: dict[str, DirectoryRecord] = field(default_factory=dict)
    default: str | None = None
    next_segment: int = 1

    def view(self, name: str) -> ViewRecord:
        """The record of a view. Raises `StoreError` if there is no view of that name."""
        if name not in self.views:
            raise StoreError(f"there is no view {name} of the store; it has {', '.join(sorted(self.views)) or 'none'}")
        return self.views[name]

    def derived(self) -> list[DirectoryRecord]:
        """Everything that can be made again from the segments."""
        masks = (view.mask for view in self.views.values())
        return [*self.sources.values(), *self.indexes.values(), *masks, *self.combiners.values()]

    def named(self) -> set[str]:
        """Every directory that belongs to the store."""
        segments = {f"{SEGMENTS}/{segment.name}" for segment in self.segments}
        return segments | {record.directory for record in self.derived()}

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model": self.model.to_json(),
            "segments": [segment.to_json() for segment in self.segments],
            "next_segment": self.next_segment,
            "sources": {name: record.to_json() for name, record in self.sources.items()},
            "indexes": {name: record.to_json() for name, record in self.indexes.items()},
            "views": {name: record.to_json() for name, record in self.views.items()},
            "combiners": {name: record.to_json() for name, record in self.combiners.items()},
            "default": self.default,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        if value["format"] < 3:  # one index and no views; format 1 has neither `default` nor `next_segment`
            indexes = {} if value["index"] is None else {MAIN: value["index"]}
            value = {"default": None, "next_segment": 1, **value, "indexes": indexes, "views": {}}
        default = value["default"]
        segments = tuple(SegmentRecord.from_json(segment) for segment in value["segments"])
        highest = max((int(segment.name) for segment in segments), default=0)
        indexes = {
            _matching(_NAME, name): DirectoryRecord.from_json(record, f"{INDEX}/{_NUMBER}")
            for name, record in value["indexes"].items()
        }
        views = {_matching(_NAME, name): ViewRecord.from_json(record) for name, record in value["views"].items()}
        if not {view.index for view in views.values()} <= {None, *indexes}:
            raise ValueError("a view has an index that is not there")
        return cls(
            model=ModelRecord.from_json(value["model"]),
            segments=segments,
            sources={
                name: DirectoryRecord.from_json(record, rf"{SOURCES}/{_NUMBER}\.{_NUMBER}")
                for name, record in value.get("sources", {}).items()
                if name in {segment.name for segment in segments}
            },
            indexes=indexes,
            views=views,
            combiners={
                _matching(_NAME, name): DirectoryRecord.from_json(record, rf"{COMBINERS}/{_NAME}\.{_NUMBER}")
                for name, record in value["combiners"].items()
            },
            default=None if default is None else _matching(_NAME, default),
            next_segment=max(int(value["next_segment"]), highest + 1),
        )


def _matching(pattern: str, text: str) -> str:
    """Check a path or name: a manifest from another source must not point outside the store's directories."""
    if re.fullmatch(pattern, text) is None:
        raise ValueError(f"{text!r} does not match {pattern}")
    return text


def check_combiner_name(name: str) -> None:
    """Check a combiner's name, which becomes part of a directory name."""
    _check_name(name, "combiner")


def check_view_name(name: str) -> None:
    """Check a view's name, which becomes part of a directory name and the name of its index."""
    _check_name(name, "view")
    if name == MAIN:
        raise StoreError(f"{MAIN!r} names the index of the whole store and cannot name a view; choose another name")


def _check_name(name: str, what: str) -> None:
    if re.fullmatch(_NAME, name) is None:
        raise StoreError(f"{name!r} cannot name a {what}; use letters, digits, '-', '_' and '.' only")


def read_manifest(store: Path) -> Manifest:
    """Read the manifest. Raises `StoreError` if there is none, if its format is newer, or if it is damaged."""
    path = store / MANIFEST
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        made_by_newer = int(value["format"]) > FORMAT
        manifest = None if made_by_newer else Manifest.from_json(value)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(_why_no_store(store)) from None
    except OSError as error:
        raise StoreError(why_unreadable(error, path)) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path} is damaged; restore it from a copy or build the store again") from error
    if manifest is None:
        raise StoreError(
            f"the store {store} has format {value['format']} and this knnmt reads up to {FORMAT}; "
            "upgrade with `pip install --upgrade knnmt`"
        )
    return manifest


def _why_no_store(store: Path) -> str:
    if listing(store / STAGING):
        return f"{store} holds only an unfinished build; run the same `knnmt build` again to finish it"
    if store.is_dir():
        return f"{store} is not a store, it has no {MANIFEST}; name another directory or make one with `knnmt build`"
    return f"there is no store at {store}; make one with `knnmt build`"


def write_manifest(store: Path, manifest: Manifest) -> None:
    write_json(store / MANIFEST, manifest.to_json())
