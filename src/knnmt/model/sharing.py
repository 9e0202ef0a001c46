"""Models and tokenizers that threads share: one lock for each, and a mark for forward passes that knnmt runs itself."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock, RLock, local
from typing import Any
from weakref import WeakKeyDictionary

_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_GUARD = Lock()


class _ThreadState(local):
    """How many passes of knnmt are open in this thread."""

    passes = 0


_thread = _ThreadState()


def lock_of(shared: Any) -> AbstractContextManager[Any]:
    """The lock of a Hugging Face model or tokenizer, the same for all knnmt objects that wrap it."""
    with _GUARD:
        lock: AbstractContextManager[Any] = _LOCKS.setdefault(shared, RLock())
    return lock


@contextmanager
def own_pass(model: Any) -> Iterator[None]:
    """Around a pass that knnmt runs itself: one thread at a time, because a pass sets hooks on the modules."""
    with lock_of(model):
        _thread.passes += 1
        try:
            yield
        finally:
            _thread.passes -= 1


def in_own_pass() -> bool:
    """Whether this thread is in a pass that knnmt runs itself; such a pass adds the memory elsewhere."""
    return _thread.passes > 0
