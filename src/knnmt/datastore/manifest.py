"""manifest.json: the one file that says what belongs to a store, and the only one ever replaced."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from knnmt.datastore.file_record import FileRecord
from knnmt.datastore.files import entries, why_unreadable, write_json
from knnmt.datastore.model_record import ModelRecord
from knnmt.errors import StoreError

FORMAT = 2
MANIFEST = "manifest.json"
SEGMENTS, INDEX, COMBINERS, STAGING = "segments", "index", "combiners", "staging"

_NUMBER = r"\d{6,}"
_NAME = r"[\w-][\w.-]*"


@dataclass(frozen=True)
class SegmentRecord:
    """What the manifest says of a segment: counts, and a `FileRecord` for each file name."""

    name: str
    pairs: int
    sentences: int
    files: dict[str, FileRecord]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "pairs": self.pairs, "sentences": self.sentences, "files": _files_json(self.files)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        name = _matching(_NUMBER, value["name"])
        return cls(name, int(value["pairs"]), int(value["sentences"]), _files_from_json(value["files"]))


@dataclass(frozen=True)
class DirectoryRecord:
    """What the manifest says of an index or a combiner: where it is, and a `FileRecord` for each file name.

    Format 1 had no checksums of these: `files` is empty then.
    """

    directory: str
    files: dict[str, FileRecord]

    def to_json(self) -> dict[str, Any]:
        return {"directory": self.directory, "files": _files_json(self.files)}

    @classmethod
    def from_json(cls, value: dict[str, Any] | str, pattern: str) -> Self:
        if isinstance(value, str):  # format 1
            value = {"directory": value, "files": {}}
        return cls(_matching(pattern, value["directory"]), _files_from_json(value["files"]))


def _files_json(files: dict[str, FileRecord]) -> dict[str, Any]:
    return {name: file.to_json() for name, file in files.items()}


def _files_from_json(value: dict[str, Any]) -> dict[str, FileRecord]:
    return {_matching(_NAME, name): FileRecord.from_json(file) for name, file in value.items()}


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json; directories are relative to the store.

    `default` is the combiner that was chosen by hand, or the base model's name; None: the best fitted one.
    `next_segment` is the number of the segment that comes next: it never goes back, so that no id ever means another
    entry.
    """

    model: ModelRecord
    segments: tuple[SegmentRecord, ...]
    index: DirectoryRecord | None
    combiners: dict[str, DirectoryRecord]
    default: str | None = None
    next_segment: int = 1

    def derived(self) -> list[DirectoryRecord]:
        """The index and the combiners, which readers open when they need them."""
        return [*([] if self.index is None else [self.index]), *self.combiners.values()]

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
            "index": None if self.index is None else self.index.to_json(),
            "combiners": {name: record.to_json() for name, record in self.combiners.items()},
            "default": self.default,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        index, default = value["index"], value.get("default")
        segments = tuple(SegmentRecord.from_json(segment) for segment in value["segments"])
        highest = max((int(segment.name) for segment in segments), default=0)
        return cls(
            model=ModelRecord.from_json(value["model"]),
            segments=segments,
            index=None if index is None else DirectoryRecord.from_json(index, f"{INDEX}/{_NUMBER}"),
            combiners={
                _matching(_NAME, name): DirectoryRecord.from_json(record, rf"{COMBINERS}/{_NAME}\.{_NUMBER}")
                for name, record in value["combiners"].items()
            },
            default=None if default is None else _matching(_NAME, default),
            next_segment=max(int(value.get("next_segment", 1)), highest + 1),  # format 1 had no counter
        )


def _matching(pattern: str, text: str) -> str:
    """A manifest from somewhere else must not lead out of the store's own directories."""
    if re.fullmatch(pattern, text) is None:
        raise ValueError(f"{text!r} does not match {pattern}")
    return text


def check_combiner_name(name: str) -> None:
    """A combiner's name becomes part of a directory's name."""
    if re.fullmatch(_NAME, name) is None:
        raise StoreError(f"{name!r} cannot name a combiner; use letters, digits, '-', '_' and '.' only")


def read_manifest(store: Path) -> Manifest:
    """Raises `StoreError` where there is no store, a newer one, or a damaged one."""
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
    if entries(store / STAGING):
        return f"{store} holds only an unfinished build; run the same `knnmt build` again to finish it"
    if store.is_dir():
        return f"{store} is not a store, it has no {MANIFEST}; name another directory or make one with `knnmt build`"
    return f"there is no store at {store}; make one with `knnmt build`"


def write_manifest(store: Path, manifest: Manifest) -> None:
    write_json(store / MANIFEST, manifest.to_json())
