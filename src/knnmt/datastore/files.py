"""Crash-safe writing, and one-sentence reports of disk errors."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knnmt.errors import StoreError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` (full disk, read-only directory) into a `StoreError`."""
    try:
        yield
    except OSError as error:
        raise StoreError(_sentence(error, path)) from error


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` while `path` is read into a `StoreError`."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOMEM:  # not a problem of the store
            raise
        raise StoreError(why_unreadable(error, path)) from error


def why_unreadable(error: OSError, path: Path) -> str:
    """Why `path`, or the file that the error names, cannot be read. A missing permission is no reason to restore it."""
    what = f"cannot read {_name(error, path)}: {error.strerror or error}"
    if error.errno in _FORBIDDEN:
        return f"{what}; ask its owner for the permission to read it"
    return f"{what}; check the disk, or restore it from a copy"


def _name(error: OSError, path: Path) -> str | Path:
    return error.filename if isinstance(error.filename, str) else path  # it may be a file descriptor


def _sentence(error: OSError, path: Path) -> str:
    what = f"cannot write {_name(error, path)}: {error.strerror or error}"
    if error.errno in _FULL:
        return f"{what}; make room and run the same command again, nothing of the store is lost"
    if error.errno in _FORBIDDEN:
        return f"{what}; make {path} writable or choose another directory"
    return f"{what}; the store is as it was, run the same command again when this is fixed"


def check_name(path: Path) -> None:
    """Refuse a path that is not UTF-8: pyarrow and faiss need UTF-8 and would fail later."""
    name = os.fsencode(path)
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        shown = name.decode("utf-8", "backslashreplace")
        raise StoreError(f"the name {shown} is not UTF-8; choose another directory") from None


def write_json(path: Path, value: Any) -> None:
    """Replace `path` atomically with this value as JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace `path` atomically: a reader gets all of the old content or all of the new."""
    new = path.with_name(path.name + ".new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """`fsync` a directory, so that created, renamed and removed names survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """`fsync` every file and directory under `path`, and its parent directory."""
    for directory, _, names in os.walk(path):
        for name in names:
            with open(Path(directory, name), "rb") as file:
                os.fsync(file.fileno())
        sync_directory(Path(directory))
    sync_directory(path.parent)


def checksum(path: Path) -> str:
    """BLAKE2b (128 bits, hexadecimal) of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def remove(path: Path) -> None:
    """Remove a file or a whole directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def listing(path: Path) -> list[Path]:
    """The paths in a directory, sorted by name; empty if there is no such directory."""
    return sorted(path.iterdir()) if path.is_dir() else []


def size_on_disk(path: Path) -> int:
    """Bytes of all files under `path`; 0 if there is no such directory."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
