"""Check that every byte of a store is as it was written."""

from pathlib import Path

from knnmt.datastore.config_file import CONFIG, ConfigFile
from knnmt.datastore.file_record import file_problems
from knnmt.datastore.files import reading_errors
from knnmt.datastore.index_record import FIX as REBUILD
from knnmt.datastore.manifest import (
    COMBINERS,
    INDEX,
    MAIN,
    SEGMENTS,
    DirectoryRecord,
    Manifest,
    SegmentRecord,
    read_manifest,
)
from knnmt.datastore.segment import Segment, content_problem, problems
from knnmt.datastore.snapshot import REFIT
from knnmt.datastore.source_vectors import FIX as REREAD
from knnmt.datastore.view import FIX as REMAKE
from knnmt.errors import StoreError
from knnmt.progress import Meter, progress

_BLOCK = 65_536  # rows checked at a time


def verify_files(path: str | Path) -> list[str]:
    """One sentence per problem; reads every byte, and works on a store that is too damaged to open.

    Compares every file that the manifest names with its checksum, and looks for invalid content.
    """
    path = Path(path)
    manifest = read_manifest(path)
    found: list[str] = []
    with progress("Verifying", total=_bytes(manifest), unit="bytes") as meter:
        for record in manifest.segments:
            found += _segment_problems(path / SEGMENTS / record.name, record, manifest)
            _advance(meter, sum(file.bytes for file in record.files.values()))
        for derived, fix in _derived(manifest):
            directory = path / derived.directory
            part = derived.directory.split("/")[0]
            if part in (INDEX, COMBINERS) and CONFIG not in derived.files:  # as in format 1
                problem = ConfigFile.read(directory, fix).problem
                found += [] if problem is None else [problem]
            found += file_problems(directory, derived.files, fix)
            _advance(meter, derived.bytes)
    return found


def _segment_problems(path: Path, record: SegmentRecord, manifest: Manifest) -> list[str]:
    if damage := problems(path, record):
        return damage
    try:
        with reading_errors(path):
            segment = Segment(path, record, manifest.model.dim)
    except StoreError as error:
        return [str(error)]
    blocks = (slice(start, start + _BLOCK) for start in range(0, len(segment), _BLOCK))
    found = (content_problem(segment, rows, manifest.model.vocab_size) for rows in blocks)
    return [problem for problem in found if problem][:1]


def _derived(manifest: Manifest) -> list[tuple[DirectoryRecord, str]]:
    """Everything derived, each with what to do if it is damaged."""
    sources = [(record, REREAD) for record in manifest.sources.values()]
    indexes = [(record, REBUILD if name == MAIN else REMAKE) for name, record in manifest.indexes.items()]
    masks = [(view.mask, REMAKE) for view in manifest.views.values()]
    return [*sources, *indexes, *masks, *((record, REFIT) for record in manifest.combiners.values())]


def _bytes(manifest: Manifest) -> int:
    segments = (file.bytes for record in manifest.segments for file in record.files.values())
    return sum(segments) + sum(record.bytes for record in manifest.derived())


def _advance(meter: Meter, count: int) -> None:
    meter.advance(count, units=count)
