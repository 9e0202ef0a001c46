"""Building an index, and whether one is needed."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from knnmt.datastore import ConfigFile, Entries, Segment, storage_errors
from knnmt.datastore.config_file import CONFIG
from knnmt.datastore.files import write_json
from knnmt.errors import StoreError
from knnmt.search.config import IndexConfig
from knnmt.search.index import INDEX_KINDS
from knnmt.search.parameters import FLAT_ENTRIES


def build_index(entries: Entries, directory: Path, kind: str = "auto") -> None:
    """Write an index over the entries, and its config last, in a new directory.

    Args:
        entries: what it covers; rows that their mask leaves out are not in the index
        directory: made if it is not there
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


def needs_index(segments: Sequence[Segment], covered: Collection[str], kind: str = "auto") -> bool:
    """Whether to build an index now, where one covers the segments named in `covered`, or none does.

    Who names a kind gets it. Otherwise up to 50,000 entries are searched exactly beside an index or without one.
    """
    check_kind(kind)
    return kind != "auto" or sum(len(segment) for segment in segments if segment.name not in covered) > FLAT_ENTRIES


def kept_kind(config: ConfigFile | None, kind: str) -> str:
    """The kind to build in place of an index: for "auto" the one that was asked for when that was built.

    So who once chose exact search, say, keeps it when the store grows.
    """
    if kind != "auto" or config is None:
        return kind
    try:
        return IndexConfig.of(config).requested
    except StoreError:  # lost or damaged, and to be rebuilt
        return kind


def check_kind(kind: str) -> None:
    """Raise `StoreError` for a kind of index that there is not."""
    if kind != "auto" and kind not in INDEX_KINDS:
        raise StoreError(f"there is no index of kind {kind!r}; choose one of auto, {', '.join(sorted(INDEX_KINDS))}")
