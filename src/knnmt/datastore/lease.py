"""Readers lock the directories that they may still open, so that no writer removes them."""

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from knnmt.datastore.files import remove


class Lease:
    """A shared lock on directories, until it is released or the process ends.

    `complete` says whether all of them exist: one may be lost, or a writer removed it before it was locked.
    """

    def __init__(self, directories: Iterable[Path]) -> None:
        self.complete = True
        self._descriptors: list[int] = []
        try:
            for directory in directories:
                self._hold(directory)
        except BaseException:
            self.release()
            raise

    def _hold(self, directory: Path) -> None:
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except PermissionError:
            return  # reading its files reports the same error
        except (FileNotFoundError, NotADirectoryError):
            self.complete = False
            return
        self._descriptors.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # a writer is removing it now
            self.complete = False
        except OSError:
            pass  # a file system without locks; files that are already mapped stay readable

    def release(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


def remove_unless_held(directory: Path) -> None:
    """Remove a file or directory that no longer belongs to the store, unless a reader holds a lease on it."""
    if not directory.is_dir() or directory.is_symlink():
        remove(directory)
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(BlockingIOError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:
                pass  # a file system without locks
            remove(directory)
    finally:
        os.close(descriptor)
