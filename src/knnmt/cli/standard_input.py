"""Read lines from standard input as they arrive: from a file, a terminal or a slow pipe."""

import codecs
import os
import select
import sys
import time
from collections.abc import Iterator

from knnmt.corpus.lines import LONGEST_LINE
from knnmt.errors import CorpusError

_PIECE = 1 << 16  # bytes read at once
_PAUSE = 0.02  # after so many seconds without input, the lines read so far are translated
_LONGEST_WAIT = 0.2  # the same after so many seconds of waiting in total, for pipes that deliver slowly


def read_lines() -> Iterator[str | None]:
    """Every line in order, and None if no more input is available now: before a pause, and before an error."""
    number = 0
    try:
        for raw in _raw_lines():
            if raw is not None:
                number += 1
            yield raw if raw is None else _decoded(raw, number)
    except CorpusError:
        yield None
        raise


def _raw_lines() -> Iterator[bytes | None]:
    """Every line without its line end; None if there is none yet."""
    unfinished = bytearray()
    number = 1
    for piece in _pieces():
        if piece is None:
            yield None
            continue
        unfinished += piece
        if b"\n" in piece:
            *whole, unfinished = unfinished.split(b"\n")
            number += len(whole)
            yield from map(bytes, whole)
        if len(unfinished) > LONGEST_LINE:
            raise _too_long(number)
    if unfinished:
        yield bytes(unfinished)


def _pieces() -> Iterator[bytes | None]:
    """Pieces of the input as they arrive; None after a pause."""
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # no standard input, or one without a file descriptor
        yield from iter(lambda: sys.stdin.buffer.read(_PIECE) if sys.stdin else b"", b"")
        return
    waited = 0.0
    try:
        while True:
            before = time.monotonic()
            ready = select.select([descriptor], [], [], min(_PAUSE, max(_LONGEST_WAIT - waited, 0.0)))[0]
            waited += time.monotonic() - before
            if not ready:
                yield None
                select.select([descriptor], [], [])
                waited = 0.0
            if not (piece := os.read(descriptor, _PIECE)):
                return
            yield piece
    except OSError as error:
        raise CorpusError(f"Standard input cannot be read ({error.strerror}); give a text file or a pipe.") from error


def _decoded(raw: bytes, number: int) -> str:
    if len(raw) > LONGEST_LINE:
        raise _too_long(number)
    if number == 1:
        raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"Line {number} of standard input is not valid UTF-8, so the translation ends before it; "
            "convert the input to UTF-8, with iconv for example."
        ) from error


def _too_long(number: int) -> CorpusError:
    return CorpusError(
        f"Line {number} of standard input is longer than {LONGEST_LINE >> 20} MiB, so the translation ends before it; "
        "give text with one sentence per line."
    )
