"""The manifest's record of a file, and checks of the file on disk against it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from knnmt.datastore.files import checksum, why_unreadable


@dataclass(frozen=True)
class FileRecord:
    """Size and checksum of one immutable file."""

    bytes: int
    blake2b: str

    def to_json(self) -> dict[str, Any]:
        return {"bytes": self.bytes, "blake2b": self.blake2b}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(int(value["bytes"]), str(value["blake2b"]))


def measure_files(directory: Path, names: Iterable[str]) -> dict[str, FileRecord]:
    """Records of finished files; reads all of them for their checksums."""
    return {name: FileRecord((directory / name).stat().st_size, checksum(directory / name)) for name in names}


def size_problem(directory: Path, records: Mapping[str, FileRecord], fix: str) -> str | None:
    """The first missing file or file of a wrong size, in one sentence that ends with `fix`; None if there is none."""
    for name, expected in records.items():
        file = directory / name
        if not file.is_file():
            return f"{file} is missing; {fix}"
        size = file.stat().st_size
        if size != expected.bytes:
            return f"{file} has {size:,} bytes where the manifest says {expected.bytes:,}; {fix}"
    return None


def file_problems(directory: Path, records: Mapping[str, FileRecord], fix: str) -> list[str]:
    """One sentence per file that differs from its record; reads every byte."""
    found = []
    for name, record in records.items():
        try:
            problem = size_problem(directory, {name: record}, fix)
            if problem is None and checksum(directory / name) != record.blake2b:
                problem = f"{directory / name} is damaged, its checksum is not the manifest's; {fix}"
        except OSError as error:
            problem = why_unreadable(error, directory / name)
        if problem is not None:
            found.append(problem)
    return found
