"""Lines of a text file, plain or gzip, one at a time."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from knnmt.errors import CorpusError

LONGEST_LINE = 1 << 24  # bytes: a binary file may have no line end at all, and must not fill the memory


def read_lines(path: Path) -> Iterator[str]:
    """Lines end at \\n, with or without \\r before it, and nowhere else; a byte order mark is dropped."""
    try:
        with _open(path) as file:
            for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), b""), start=1):
                if len(line) == LONGEST_LINE:
                    raise CorpusError(
                        f"Line {number} of {path} is longer than {LONGEST_LINE >> 20} MiB: "
                        "give a text file with one sentence a line."
                    )
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                    if not line:
                        return
                yield _decode(line, path, number)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(
            f"{path} is cut short or no gzip file: copy it again, or compress it again with gzip."
        ) from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({error.strerror}): check the file and its rights.") from error


def _open(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path))
    return path.open("rb")


def _decode(line: bytes, path: Path, number: int) -> str:
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"Line {number} of {path} is not valid UTF-8: convert the file to UTF-8, with iconv for example."
        ) from error
