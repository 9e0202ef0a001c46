"""Making an index."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from knnmt.datastore import Segment, storage_errors
from knnmt.datastore.files import write_json
from knnmt.errors import StoreError
from knnmt.search.config import CONFIG, IndexConfig
from knnmt.search.index import INDEX_KINDS
from knnmt.search.parameters import FLAT_PAIRS


def build_index(segments: Sequence[Segment], directory: Path, kind: str = "auto") -> None:
    """Write an index over the segments, and its config last, in a new directory.

    Args:
        segments: what it covers
        directory: made if it is not there
        kind: one of `INDEX_KINDS`, or "auto": `ivf` from 50,000 pairs on, else `flat`
    """
    _check(kind)
    chosen = kind
    if kind == "auto":
        chosen = "ivf" if sum(map(len, segments)) >= FLAT_PAIRS else "flat"
    with storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        config = INDEX_KINDS[chosen].build(segments, directory)
        write_json(directory / CONFIG, replace(config, requested=kind).to_json())


def needs_index(segments: Sequence[Segment], covered: frozenset[str], kind: str = "auto") -> bool:
    """Whether to build an index now, where one covers the segments named in `covered`, or none does.

    Who names a kind gets it. Otherwise up to 50,000 pairs are searched exactly beside an index or without one.
    """
    _check(kind)
    return kind != "auto" or sum(len(segment) for segment in segments if segment.name not in covered) > FLAT_PAIRS


def kept_kind(directory: Path | None, kind: str) -> str:
    """The kind to build in place of the index in `directory`: for "auto" the one that was asked for when that was made.

    So who once chose exact search, say, keeps it when the store grows.
    """
    if kind != "auto" or directory is None:
        return kind
    try:
        return IndexConfig.read(directory).requested
    except StoreError:  # lost or damaged, and to be rebuilt
        return kind


def _check(kind: str) -> None:
    if kind != "auto" and kind not in INDEX_KINDS:
        raise StoreError(f"there is no index of kind {kind!r}; choose one of auto, {', '.join(sorted(INDEX_KINDS))}")
