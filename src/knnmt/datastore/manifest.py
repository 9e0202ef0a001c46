"""manifest.json: the one file that says what belongs to a store, and the only one ever replaced."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from knnmt.datastore.files import entries, write_json
from knnmt.datastore.model_record import ModelRecord
from knnmt.errors import StoreError

FORMAT = 1
MANIFEST = "manifest.json"
SEGMENTS, INDEX, COMBINERS, STAGING = "segments", "index", "combiners", "staging"

_NUMBER = r"\d{6,}"
_NAME = r"[\w-][\w.-]*"


@dataclass(frozen=True)
class FileRecord:
    """Size and checksum of one immutable file."""

    bytes: int
    blake2b: str


@dataclass(frozen=True)
class SegmentRecord:
    """What the manifest says of a segment: counts, and a `FileRecord` for each file name."""

    name: str
    pairs: int
    sentences: int
    files: dict[str, FileRecord]

    def to_json(self) -> dict[str, Any]:
        files = {name: {"bytes": file.bytes, "blake2b": file.blake2b} for name, file in self.files.items()}
        return {"name": self.name, "pairs": self.pairs, "sentences": self.sentences, "files": files}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        files = {name: FileRecord(int(file["bytes"]), str(file["blake2b"])) for name, file in value["files"].items()}
        return cls(_matching(_NUMBER, value["name"]), int(value["pairs"]), int(value["sentences"]), files)


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json; directories are relative to the store."""

    model: ModelRecord
    segments: tuple[SegmentRecord, ...]
    index: str | None
    combiners: dict[str, str]

    def named(self) -> set[str]:
        """Every directory that belongs to the store."""
        segments = {f"{SEGMENTS}/{segment.name}" for segment in self.segments}
        return segments | set(self.combiners.values()) | ({self.index} if self.index is not None else set())

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model": self.model.to_json(),
            "segments": [segment.to_json() for segment in self.segments],
            "index": self.index,
            "combiners": self.combiners,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        index = value["index"]
        return cls(
            model=ModelRecord.from_json(value["model"]),
            segments=tuple(SegmentRecord.from_json(segment) for segment in value["segments"]),
            index=None if index is None else _matching(f"{INDEX}/{_NUMBER}", index),
            combiners={
                _matching(_NAME, name): _matching(rf"{COMBINERS}/{_NAME}\.{_NUMBER}", directory)
                for name, directory in value["combiners"].items()
            },
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
        raise StoreError(f"cannot read {path}: {error.strerror}; see to its permissions and its disk") from error
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
