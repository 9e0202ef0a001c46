"""Build an index, and decide whether one is needed."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from knnmt.datastore import ConfigFile, Entries, storage_errors
from knnmt.datastore.config_file import CONFIG
from knnmt.datastore.files import write_json
from knnmt.errors import StoreError
from knnmt.search.config import IndexConfig
from knnmt.search.index import INDEX_KINDS
from knnmt.search.parameters import FLAT_ENTRIES


def build_index(entries: Entries, directory: Path, kind: str = "auto") -> None:
    """Write an index over the entries to a directory; its config is written last.

    Args:
        entries: the entries to index; rows that their mask leaves out are not in the index
        directory: created if it does not exist
        kind: one of `INDEX_KINDS`, or "auto": `ivf` from 50,000 entries on, else `flat`
    """
    check_kind(kind)
    chosen = kind
    if kind == "auto":
        chosen = "ivf" if len(entries) >= FLAT_ENTRIES else "flat"
    with storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        config = INDEX_KINDS[chosen].build(entries, directory)
        write_json(directory / CONFIG, replace(config, requested=kind).to_json())


def needs_index(entries: Entries, covered: Collection[str], kind: str = "auto") -> bool:
    """Whether to build an index of the entries now, if the present one covers the segments in `covered` (empty: none).

    Always for an explicit kind. For "auto", up to 50,000 entries outside the index are searched exactly.
    """
    check_kind(kind)
    uncovered = {segment.name for segment in entries.segments} - set(covered)
    return kind != "auto" or len(entries.of_segments(uncovered)) > FLAT_ENTRIES


def kept_kind(config: ConfigFile | None, kind: str) -> str:
    """The kind to build in place of an index: for "auto", the kind requested when that index was built.

    A user who once chose exact search, for example, keeps it when the store grows.
    """
    if kind != "auto" or config is None:
        return kind
    try:
        return IndexConfig.of(config).requested
    except StoreError:  # missing or damaged: it is rebuilt
        return kind


def check_kind(kind: str) -> None:
    """Raise `StoreError` for an unknown kind of index."""
    if kind != "auto" and kind not in INDEX_KINDS:
        raise StoreError(f"there is no index of kind {kind!r}; choose one of auto, {', '.join(sorted(INDEX_KINDS))}")
