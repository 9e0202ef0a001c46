"""Models and tokenizers that several threads use: one lock for each, and passes of ours apart from everybody else's."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock, RLock, local
from typing import Any
from weakref import WeakKeyDictionary

_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_GUARD = Lock()


class _Here(local):
    """Of this thread."""

    passes = 0


_here = _Here()


def lock_of(shared: Any) -> AbstractContextManager[Any]:
    """The one lock of a Hugging Face model or tokenizer, however many objects of ours wrap it."""
    with _GUARD:
        lock: AbstractContextManager[Any] = _LOCKS.setdefault(shared, RLock())
    return lock


@contextmanager
def own_pass(model: Any) -> Iterator[None]:
    """A Hugging Face model that knnmt runs itself: one thread at a time, because a pass sets hooks on its modules."""
    with lock_of(model):
        _here.passes += 1
        try:
            yield
        finally:
            _here.passes -= 1


def in_own_pass() -> bool:
    """Whether this thread is running a model for knnmt itself, which mixes its memory in elsewhere."""
    return _here.passes > 0
