"""Lines of a text file, plain or gzip, one at a time."""

import codecs
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources.abc import Traversable
from typing import BinaryIO, cast

from knnmt.errors import CorpusError

LONGEST_LINE = 1 << 24  # bytes: a binary file may have no line end at all, and must not fill the memory


def read_lines(path: Traversable) -> Iterator[str]:
    """Lines end at \\n, with or without \\r before it, and nowhere else; a byte order mark is dropped."""
    with open_file(path) as file:
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


@contextmanager
def open_file(path: Traversable) -> Iterator[BinaryIO]:
    """Its bytes, unpacked if it is a .gz; what cannot be read is told."""
    try:
        with path.open("rb") as file:
            if not path.name.lower().endswith(".gz"):
                yield cast(BinaryIO, file)
                return
            with gzip.open(file) as unpacked:
                yield cast(BinaryIO, unpacked)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(
            f"{path} is cut short or no gzip file: copy it again, or compress it again with gzip."
        ) from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({error.strerror or error}): check file and rights.") from error
    except (zipfile.BadZipFile, lzma.LZMAError, RuntimeError) as error:  # damaged, encrypted, packed by unknown means
        raise CorpusError(f"{path} cannot be unpacked ({error}): unpack the archive and give the directory.") from error


def _decode(line: bytes, path: Traversable, number: int) -> str:
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"Line {number} of {path} is not valid UTF-8: convert the file to UTF-8, with iconv for example."
        ) from error
