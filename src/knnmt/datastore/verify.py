"""Whether every byte of a store is as it was written."""

from pathlib import Path

from knnmt.datastore.file_record import file_problems
from knnmt.datastore.files import reading_errors
from knnmt.datastore.manifest import SEGMENTS, Manifest, SegmentRecord, read_manifest
from knnmt.datastore.segment import Segment, content_problem, problems
from knnmt.errors import StoreError
from knnmt.progress import Meter, progress

REBUILD = "rebuild the index with `knnmt build` on the store, without a corpus"
REFIT = "fit it again with `knnmt fit`, or remove it with `knnmt forget`"

_BLOCK = 65_536  # rows whose content is looked at together


def verify_files(path: str | Path) -> list[str]:
    """A sentence for each problem, of a store that may be too damaged to open; reads every byte.

    Compares every file that the manifest names with its checksum, and looks for content that cannot be.
    """
    path = Path(path)
    manifest = read_manifest(path)
    found: list[str] = []
    with progress("Verifying", total=_bytes(manifest), unit="bytes") as meter:
        for record in manifest.segments:
            found += _segment_problems(path / SEGMENTS / record.name, record, manifest)
            _advance(meter, sum(file.bytes for file in record.files.values()))
        for derived in manifest.derived():
            fix = REBUILD if derived is manifest.index else REFIT
            if "config.json" not in derived.files and not (path / derived.directory / "config.json").is_file():
                found.append(f"{path / derived.directory} has no config.json; {fix}")
            found += file_problems(path / derived.directory, derived.files, fix)
            _advance(meter, sum(file.bytes for file in derived.files.values()))
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


def _bytes(manifest: Manifest) -> int:
    files = [record.files for record in manifest.segments] + [record.files for record in manifest.derived()]
    return sum(file.bytes for each in files for file in each.values())


def _advance(meter: Meter, count: int) -> None:
    meter.advance(count, units=count)
