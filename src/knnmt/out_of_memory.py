"""Recognise that memory ran out, whatever error a library raises, and report it as that."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap

from knnmt.errors import KnnmtError, NotEnoughMemory

# messages of torch, onnxruntime, faiss, safetensors and the dynamic linker; the linker has another message with the
# same beginning, about thread-local storage
_MESSAGES = re.compile(
    r"can't allocate memory|not enough memory|out of memory"
    r"|bad_alloc|bad allocation|failed to allocate memory"
    r"|unable to allocate|unable to mmap"
    r"|cannot allocate memory(?! in static tls)|failed to map segment",
    re.IGNORECASE,
)


_LITTLE = 1 << 27  # bytes; a process that cannot allocate this much is out of memory


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception, or one that led to it, reports too little memory; also if no memory is left now."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if _reports_it(current):
            return True
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    # an import that ran out of memory may cause a later error that does not mention memory
    return not isinstance(error, KnnmtError) and _none_left()


def _none_left() -> bool:
    try:
        mmap(-1, _LITTLE).close()
    except (OSError, MemoryError):
        return True
    return False


def _reports_it(error: BaseException) -> bool:
    if isinstance(error, MemoryError | NotEnoughMemory):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return not isinstance(error, KnnmtError) and _MESSAGES.search(str(error)) is not None


def not_enough_memory(purpose: str, also: str = "") -> NotEnoughMemory:
    """The error for the user; `also` is further advice."""
    return NotEnoughMemory(
        f"There is not enough memory to {purpose}; close other programs{also}, or use another machine."
    )


@contextmanager
def memory_errors(purpose: str, also: str = "") -> Iterator[None]:
    """Context manager or decorator that reports any out-of-memory error, wrapped or not, as `NotEnoughMemory`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, NotEnoughMemory) or not is_out_of_memory(error):
            raise
        raise not_enough_memory(purpose, also) from error
