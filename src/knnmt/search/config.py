"""config.json of an index: its kind, the segments it covers, and its recall."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from knnmt.datastore import ConfigFile, Entries, IndexRecord
from knnmt.datastore.index_record import FIX, covered_segments
from knnmt.errors import StoreError
from knnmt.search.parameters import FLAT_RESCORE, RECALL_DEPTHS


@dataclass(frozen=True, kw_only=True)
class IndexConfig(IndexRecord):
    """The config of an index, stored in its directory.

    Args:
        kind: the key in `INDEX_KINDS` of the class that opens it.
        requested: the kind that the user requested, or "auto"; requested again when the index is rebuilt.
        engine: the software or service that searches, for display.
        index: the index type in the engine's notation, such as a faiss factory string; for display.
        segments: checksums of the covered segments by name; other segments of the store are searched exactly.
        entries: number of indexed entries: all live rows of those segments.
        dim: size of a key.
        rescore: candidates per neighbour, whose distances are then computed exactly.
        recall: recall@8, @16 and @32 against exact search.
        parameters: search parameters of the engine for this recall, and seeds.
        files: size in bytes of each index file.
        fix: what to do if a file is lost; not in config.json.
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
    fix: str = FIX

    @property
    def probes(self) -> int | None:
        """Lists searched per query; None for an index without lists."""
        return self.parameters.get("probes")

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        parameters = value.pop("parameters")
        value.pop("fix")
        return {**value, **parameters}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        if "entries" not in value:
            value = {"entries": value["pairs"], **{name: each for name, each in value.items() if name != "pairs"}}
        known = {name: value[name] for name in cls.__dataclass_fields__ if name not in ("parameters", "fix")}
        known["segments"] = covered_segments(known["segments"])
        rest = {name: int(number) for name, number in value.items() if name not in known and isinstance(number, int)}
        return cls(**known, parameters=rest)

    @classmethod
    def of(cls, config: ConfigFile) -> Self:
        """Parse a config file. Raises `StoreError` if it is missing or invalid."""
        if config.problem is not None:
            raise StoreError(config.problem)
        try:
            return replace(cls.from_json(config.fields), fix=config.fix)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(config.damaged()) from error

    def file_problem(self, directory: Path, name: str) -> str | None:
        """A sentence if a file is missing or truncated: reading a mapped, truncated file would kill the process."""
        path, size = directory / name, self.files[name]
        if not path.is_file():
            return f"{path} is missing; {self.fix}"
        if path.stat().st_size != size:
            return f"{path} has {path.stat().st_size:,} bytes where it should have {size:,}; {self.fix}"
        return None

    def problems(self, directory: Path) -> list[str]:
        """One sentence per file that is missing or truncated."""
        return [problem for name in self.files if (problem := self.file_problem(directory, name))]


def flat_config(entries: Entries) -> IndexConfig:
    """The config of exact search, which has recall 1 and needs no files."""
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
