"""One writer at a time: an advisory lock on a file in the store's directory."""

import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path

from knnmt.errors import StoreBusyError

LOCK = "lock"

_log = logging.getLogger(__name__)


class DirectoryLock:
    """Locks a directory for one writer; creates the directory if it does not exist.

    The kernel releases the lock when the process ends, even if it is killed. The content of the file has no meaning.

    Args:
        wait: wait for another writer to finish; otherwise raise `StoreBusyError` at once
    """

    def __init__(self, directory: Path, wait: bool = False) -> None:
        self.path = directory / LOCK
        self.wait = wait
        self._made = [p for p in (directory, *directory.parents) if not p.exists()]  # deepest first
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._acquire()
        except BaseException:
            self._remove_made()
            raise

    def _acquire(self) -> int:
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                self._lock(descriptor)
                # A writer that leaves no store removes its lock file, so this path may now be a different file.
                if self.path.exists() and os.path.samestat(os.fstat(descriptor), self.path.stat()):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = f"another process is writing to {self.path.parent}"
            if not self.wait:
                raise StoreBusyError(f"{busy}; wait until it has finished") from None
            _log.warning("%s; waiting until it has finished.", busy)
            fcntl.flock(descriptor, fcntl.LOCK_EX)

    def release(self) -> None:
        os.close(self._descriptor)

    def release_and_remove(self) -> None:
        """Release the lock; remove its file and every directory that was created for it and is still empty."""
        with suppress(OSError):
            self.path.unlink()
        self._remove_made()
        self.release()

    def _remove_made(self) -> None:
        with suppress(OSError):
            for directory in self._made:
                directory.rmdir()
