"""Not enough memory, however a library says it, told as what it is: nothing is damaged and nothing has a wrong name."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap

from knnmt.errors import KnnmtError, NotEnoughMemory

# torch, onnxruntime, faiss, safetensors and the dynamic linker; the last has another complaint that begins
# alike and is about thread-local storage
_SAID = re.compile(
    r"can't allocate memory|not enough memory|out of memory"
    r"|bad_alloc|bad allocation|failed to allocate memory"
    r"|unable to allocate|unable to mmap"
    r"|cannot allocate memory(?! in static tls)|failed to map segment",
    re.IGNORECASE,
)


_LITTLE = 1 << 27  # bytes: whoever cannot have so many will not get far


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception, or one that led to it, says that there was not enough memory; or there is none now."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if _says_so(current):
            return True
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    # an import that failed halfway is complained of later, in words that say nothing of memory
    return not isinstance(error, KnnmtError) and _none_left()


def _none_left() -> bool:
    try:
        mmap(-1, _LITTLE).close()
    except (OSError, MemoryError):
        return True
    return False


def _says_so(error: BaseException) -> bool:
    if isinstance(error, MemoryError | NotEnoughMemory):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return not isinstance(error, KnnmtError) and _SAID.search(str(error)) is not None


def not_enough_memory(purpose: str, also: str = "") -> NotEnoughMemory:
    """The one sentence; `also` is what may help besides."""
    return NotEnoughMemory(
        f"There is not enough memory to {purpose}; close other programs{also}, or use another machine."
    )


@contextmanager
def memory_errors(purpose: str, also: str = "") -> Iterator[None]:
    """Around what may wrap its errors in others, or as a decorator: too little memory is told as that."""
    try:
        yield
    except Exception as error:
        if isinstance(error, NotEnoughMemory) or not is_out_of_memory(error):
            raise
        raise not_enough_memory(purpose, also) from error
