"""Tab-separated values: source, target, optional origin; with or without a header and the quotes of a spreadsheet."""

import re
from collections.abc import Iterator
from importlib.resources.abc import Traversable

from knnmt.corpus.characters import has_text
from knnmt.corpus.languages import nearest_language
from knnmt.corpus.lines import raw_lines, read_lines
from knnmt.corpus.pair import Pair, Part
from knnmt.errors import CorpusError

_MANY = 100  # lines with quotes around every cell; ordinary text does not have so many
_CELL = r'"(?:[^"]|"")*+"|[^"\t]*+'  # as spreadsheets write it: a cell with quotes is quoted, its quotes doubled
_CELLS = re.compile(rf"(?:\A|\t)({_CELL})")
_LINE = re.compile(rf"(?:{_CELL})(?:\t(?:{_CELL}))*+")
_SIDES = {"source": "source", "src": "source", "target": "target", "tgt": "target", "trg": "target"}
_ORDER = ["source", "target"]
_CODE = re.compile(r"[a-z]{2,3}([-_][a-z]{2,4}){0,2}", re.IGNORECASE)

_Languages = tuple[str, str] | None


def read_tsv(part: Part) -> Iterator[Pair]:
    (path,) = part.paths
    quoted: bool | None = None
    for number, line in enumerate(read_lines(path), start=1):
        if not has_text(line):
            yield Pair("", "", part.origin, number)
            continue
        if quoted is None and '"' in line:
            quoted = _is_quoted(path, part.languages)
        columns = _unquoted(line) if quoted else line.split("\t")
        if not 2 <= len(columns) <= 3:
            have = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
            raise CorpusError(
                f"Line {number} of {path} has {have}: "
                "a TSV line is source, target and optionally origin, with a tab between them."
            )
        header = _header(columns, part.languages) if number == 1 else []
        if header and header[:2] != _ORDER:
            raise CorpusError(
                f"Line 1 of {path} names its columns {', '.join(columns)}: "
                "put them in the order source, target and optionally origin, or delete a line that names them wrongly."
            )
        source, target, *own_origin = columns
        origin = "".join(own_origin).strip() or part.origin
        yield Pair(source, target, origin, number, "header" if header else "")


def _header(columns: list[str], languages: _Languages) -> list[str]:
    """The side that each column names, or an empty string; an empty list if the line is not a header."""
    names = [column.strip().strip('"') for column in columns]
    sides = [_SIDES.get(name.casefold(), "") for name in names]
    if languages is not None:
        codes = tuple(name for name in names if _CODE.fullmatch(name))
        found = {nearest_language(language, codes): side for language, side in zip(languages, _ORDER, strict=True)}
        sides = [side or found.get(name, "") for side, name in zip(sides, names, strict=True)]
    return sides if set(_ORDER) <= set(sides) else []


def _is_quoted(path: Traversable, languages: _Languages) -> bool:
    """Whether a spreadsheet wrote the file: each cell with a quote is quoted, and its quotes are doubled.

    A sentence that is a quotation looks the same. So the file must also have a doubled quote, a quoted header, or many
    lines with nothing outside quotes.
    """
    evident = bare = False
    lines = 0
    try:
        for number, raw in enumerate(raw_lines(path), start=1):
            if b'"' not in raw:
                bare = bare or (number > 1 and bool(raw.strip()))
                continue
            line = raw.decode("latin-1")  # never fails; the reader reports what is not UTF-8
            cells = _CELLS.findall(line) if _LINE.fullmatch(line) else []
            if not 2 <= len(cells) <= 3:
                return False
            lines += 1
            evident = evident or any('""' in cell[1:-1] for cell in cells)
            evident = evident or (number == 1 and bool(_header(cells, languages)))
            bare = bare or not all(cell.startswith('"') for cell in cells if cell)
    except CorpusError:
        pass  # the reader reports it when it reaches the line
    return evident or (lines >= _MANY and not bare)


def _unquoted(line: str) -> list[str]:
    cells = _CELLS.findall(line)
    return [cell[1:-1].replace('""', '"').replace("\t", " ") if cell.startswith('"') else cell for cell in cells]
