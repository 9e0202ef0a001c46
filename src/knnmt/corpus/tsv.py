"""Tab-separated values: source, target, optional origin; no header, no quoting."""

from collections.abc import Iterator

from knnmt.corpus.lines import read_lines
from knnmt.corpus.pair import Pair, Part
from knnmt.errors import CorpusError


def read_tsv(part: Part) -> Iterator[Pair]:
    (path,) = part.paths
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            yield Pair("", "", part.origin, number)
            continue
        columns = line.split("\t")
        if not 2 <= len(columns) <= 3:
            have = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
            raise CorpusError(
                f"Line {number} of {path} has {have}: "
                "a TSV line is source, target and optionally origin, with a tab between them."
            )
        source, target, *own_origin = columns
        origin = "".join(own_origin).strip() or part.origin
        yield Pair(source, target, origin, number)
