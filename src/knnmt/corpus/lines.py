"""Lines of a text file, plain or gzip, one at a time."""

import codecs
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources.abc import Traversable
from itertools import chain
from typing import BinaryIO, cast

from knnmt.corpus.unreadable import refuse_binary
from knnmt.errors import CorpusError

LONGEST_LINE = 1 << 24  # bytes; a binary file may have no line end and must not fill the memory
_CHUNK = 1 << 16
_CR_LINE = re.compile(rb"([^\r]*)\r")


def read_lines(path: Traversable) -> Iterator[str]:
    """The lines, without byte order mark; they end with \\n, \\r\\n, or \\r in a file without \\n."""
    for number, line in enumerate(raw_lines(path), start=1):
        if number == 1:
            refuse_binary(line, path)
        yield _decode(line, path, number)


def raw_lines(path: Traversable) -> Iterator[bytes]:
    """The same lines as unchecked bytes."""
    with open_file(path) as file:
        first = file.readline(LONGEST_LINE).removeprefix(codecs.BOM_UTF8)
        if not first:
            return
        if b"\r" in first and not first.endswith(b"\n"):
            yield from _ended_by_cr(file, first, path)
            return
        rest = iter(partial(file.readline, LONGEST_LINE), b"")
        for number, line in enumerate(chain((first,), rest), start=1):
            _check_length(line, path, number)
            yield line.removesuffix(b"\n").removesuffix(b"\r")


@contextmanager
def open_file(path: Traversable) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if it is a .gz; raises CorpusError if it cannot be read."""
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


def _ended_by_cr(file: BinaryIO, buffer: bytes, path: Traversable) -> Iterator[bytes]:
    """Lines that end with CR, as on old Macs; refuses CR mixed with LF, where line numbers are ambiguous."""
    number = 0
    while True:
        end = 0
        for match in _CR_LINE.finditer(buffer):
            number, end = number + 1, match.end()
            yield match[1]
        buffer = buffer[end:]
        _check_length(buffer, path, number + 1)
        chunk = file.read(_CHUNK)
        if not chunk:
            break
        if b"\n" in chunk:
            raise CorpusError(f"{path} has two kinds of line ends, CR and LF: convert all of them to LF.")
        buffer += chunk
    if buffer:
        yield buffer


def _check_length(line: bytes, path: Traversable, number: int) -> None:
    if len(line) >= LONGEST_LINE:
        raise CorpusError(
            f"Line {number} of {path} is longer than {LONGEST_LINE >> 20} MiB: "
            "give a text file with one sentence per line."
        )


def _decode(line: bytes, path: Traversable, number: int) -> str:
    if b"\0" in line:
        raise CorpusError(
            f"Line {number} of {path} holds a NUL byte, which is no text: "
            "check the file, or take such bytes out with `tr -d '\\000'`."
        )
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"Line {number} of {path} is not valid UTF-8: convert the file to UTF-8, with iconv for example."
        ) from error
