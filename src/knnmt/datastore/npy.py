"""Growing .npy files in place."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The header, which has the same length for any number of rows: the format reserves space for the count."""
    buffer = io.BytesIO()
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()


def size(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Size of a whole file in bytes."""
    return len(header(dtype, shape)) + dtype.itemsize * int(np.prod(shape, dtype=np.int64))


def splice(path: Path, start: int, rows: npt.NDArray[Any]) -> None:
    """Write `rows` after the first `start` rows of the file, and truncate it there; on disk when this returns.

    Everything after the first `start` rows, complete or not, is overwritten, so the same call can be repeated.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        file.write(header(rows.dtype, (start + len(rows), *rows.shape[1:])))
        file.seek(size(rows.dtype, (start, *rows.shape[1:])))
        file.truncate()
        file.write(np.ascontiguousarray(rows).data)
        file.flush()
        os.fsync(file.fileno())
