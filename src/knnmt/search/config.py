"""config.json of an index: what it is, what it covers and how well it finds."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from knnmt.datastore import ConfigFile, Entries, IndexRecord
from knnmt.datastore.index_record import FIX, covered_segments
from knnmt.errors import StoreError
from knnmt.search.parameters import FLAT_RESCORE, RECALL_DEPTHS


@dataclass(frozen=True, kw_only=True)
class IndexConfig(IndexRecord):
    """Kept beside the files of an index.

    Args:
        kind: which of `INDEX_KINDS` opens it.
        requested: the kind that was asked for, "auto" where nobody chose; to be asked for again when it is rebuilt.
        engine: the software or service that searches, for people.
        index: what it makes of the keys, in the engine's own words.
        segments: checksums by name of those covered; other segments of the store are searched exactly beside it.
        entries: how many it finds, all live rows of those segments.
        dim: size of a key.
        rescore: candidates for each neighbour wanted, whose distances are then computed exactly.
        recall: @8, @16, @32 against exact search.
        parameters: what the engine needs to search again as it was measured, and seeds.
        files: size in bytes of each file of the engine.
    """

    kind: str
    requested: str
    engine: str
    index: str
    entries: int
    dim: int
    rescore: int
    recall: dict[str, float]
    parameters: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    @property
    def probes(self) -> int | None:
        """Lists looked through for each query, for an index that has lists."""
        return self.parameters.get("probes")

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        parameters = value.pop("parameters")
        return {**value, **parameters}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        if "entries" not in value:
            value = {"entries": value["pairs"], **{name: each for name, each in value.items() if name != "pairs"}}
        known = {name: value[name] for name in cls.__dataclass_fields__ if name != "parameters"}
        known["segments"] = covered_segments(known["segments"])
        rest = {name: int(number) for name, number in value.items() if name not in known and isinstance(number, int)}
        return cls(**known, parameters=rest)

    @classmethod
    def of(cls, config: ConfigFile) -> Self:
        """Raises `StoreError` where the index is missing, or its config cannot be understood."""
        if config.problem is not None:
            raise StoreError(config.problem)
        try:
            return cls.from_json(config.fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(config.damaged()) from error

    def file_problem(self, directory: Path, name: str) -> str | None:
        """Whether a file is missing or cut short, which would end the process when its mapped pages are touched."""
        path, size = directory / name, self.files[name]
        if not path.is_file():
            return f"{path} is missing; {FIX}"
        if path.stat().st_size != size:
            return f"{path} has {path.stat().st_size:,} bytes where it should have {size:,}; {FIX}"
        return None

    def problems(self, directory: Path) -> list[str]:
        """All files that are missing or cut short."""
        return [problem for name in self.files if (problem := self.file_problem(directory, name))]


def flat_config(entries: Entries) -> IndexConfig:
    """Of exact search, which finds everything and needs no files."""
    return IndexConfig(
        kind="flat",
        requested="auto",
        engine="faiss",
        index="Flat",
        segments=dict(entries.checksums),
        entries=len(entries),
        dim=entries.dim,
        rescore=FLAT_RESCORE,
        recall={str(depth): 1.0 for depth in RECALL_DEPTHS},
    )
