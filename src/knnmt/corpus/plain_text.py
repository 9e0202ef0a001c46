"""Plain text: line n of the target file translates line n of the source file."""

from collections.abc import Iterator
from itertools import zip_longest

from knnmt.corpus.lines import read_lines
from knnmt.corpus.pair import Pair, Part
from knnmt.errors import CorpusError


def read_plain_text(part: Part) -> Iterator[Pair]:
    source_path, target_path = part.paths
    sources, targets = read_lines(source_path), read_lines(target_path)
    for number, (source, target) in enumerate(zip_longest(sources, targets), start=1):
        if source is None or target is None:
            longer = number + sum(1 for _ in (targets if source is None else sources))
            source_lines, target_lines = (number - 1, longer) if source is None else (longer, number - 1)
            raise CorpusError(
                f"{source_path} has {source_lines} lines but {target_path} has {target_lines}: "
                "each line of one must translate the same line of the other."
            )
        yield Pair(source, target, part.origin, number)
