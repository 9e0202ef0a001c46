"""config.json of an index: what it is, what it covers and how well it finds."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from knnmt.datastore import Store
from knnmt.errors import StoreError

CONFIG = "config.json"
FIX = "run `knnmt build` on the store without a corpus, which rebuilds the index"


@dataclass(frozen=True)
class IndexConfig:
    """Kept beside the files of an index.

    Args:
        kind: which of `INDEX_KINDS` opens it.
        requested: the kind that was asked for, "auto" where nobody chose; to be asked for again when it is rebuilt.
        engine: the software or service that searches, for people.
        index: what it makes of the keys, in the engine's own words.
        segments: names of those covered; whatever else is in the store is searched exactly beside it.
        pairs: in those segments.
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
    segments: tuple[str, ...]
    pairs: int
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
        known = {name: value[name] for name in cls.__dataclass_fields__ if name != "parameters"}
        known["segments"] = tuple(known["segments"])
        rest = {name: int(number) for name, number in value.items() if name not in known and isinstance(number, int)}
        return cls(**known, parameters=rest)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Raises `StoreError` where there is none, or one that cannot be understood."""
        try:
            return cls.from_json(json.loads((directory / CONFIG).read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise StoreError(f"the index in {directory} is missing; {FIX}") from error
        except OSError as error:
            raise StoreError(f"the index in {directory} cannot be read ({error.strerror}); {FIX}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{directory / CONFIG} is damaged; {FIX}") from error

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


def exact_config(store: Store) -> IndexConfig:
    """Of a store without an index."""
    names = tuple(segment.name for segment in store.segments)
    return flat_config(names, store.pairs, store.dim)


def flat_config(segments: tuple[str, ...], pairs: int, dim: int) -> IndexConfig:
    """Of exact search, which finds everything and needs no files."""
    recall = {"8": 1.0, "16": 1.0, "32": 1.0}
    return IndexConfig("flat", "auto", "faiss", "Flat", segments, pairs, dim, rescore=2, recall=recall)
