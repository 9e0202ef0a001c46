"""Too little memory, in the words of the libraries that run into it."""

import errno
import os

import numpy as np
import pyarrow as pa
import pytest
import safetensors
import torch
from numpy._core._exceptions import _ArrayMemoryError

from knnmt import out_of_memory
from knnmt.errors import NotEnoughMemory, StoreError
from knnmt.out_of_memory import is_out_of_memory, memory_errors

TORCH = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "4000000000000 bytes. Error code 12 (Cannot allocate memory)"
)


def caused(error: BaseException, *, by: BaseException, told: bool = True) -> BaseException:
    try:
        try:
            raise by
        except BaseException as first:
            if told:
                raise error from first
            raise error  # noqa: B904
    except BaseException as found:
        return found


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        _ArrayMemoryError((1 << 50,), np.dtype(float)),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        RuntimeError(TORCH),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        Exception("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during initialization: std::bad_alloc"),
        Exception("[ONNXRuntimeError] : 1 : FAIL : bad allocation"),
        RuntimeError("BFCArena: Failed to allocate memory for requested buffer of size 8589934592"),
        pa.ArrowMemoryError("malloc of size 64 failed"),
        RuntimeError("std::bad_alloc"),
        safetensors.SafetensorError("Error while deserializing header: Cannot allocate memory (os error 12)"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        ImportError("libfoo.so: cannot allocate memory"),
        caused(ImportError("Could not import module 'MarianMTModel'."), by=MemoryError()),
        caused(StoreError("the store is damaged"), by=OSError(errno.ENOMEM, "Cannot allocate memory")),
        caused(ValueError("no"), by=RuntimeError(TORCH), told=False),
    ],
    ids=repr,
)
def test_what_says_so(error: BaseException) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOENT, "No such file or directory"),
        RuntimeError("size mismatch for lm_head.weight"),
        ImportError("libgomp.so.1: cannot allocate memory in static TLS block"),
        StoreError("the store out of memory is damaged"),
        caused(ValueError("no"), by=KeyError("x")),
    ],
    ids=repr,
)
def test_what_does_not(error: BaseException) -> None:
    assert not is_out_of_memory(error)


def test_what_torch_says() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50)
    assert is_out_of_memory(caught.value)


def test_where_nothing_is_left_any_fault_may_come_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(out_of_memory, "mmap", none)
    assert is_out_of_memory(ImportError("cannot import name 'x' from partially initialized module 'y'"))
    assert not is_out_of_memory(StoreError("there is no store")), "what we say ourselves we know"


def test_a_decorated_function_tells_it_and_nothing_else() -> None:
    @memory_errors("open the store", also=", use --mapped")
    def work(error: Exception) -> None:
        raise error

    with pytest.raises(NotEnoughMemory, match=r"^There is not enough memory to open the store; .*--mapped"):
        work(RuntimeError("std::bad_alloc"))
    with pytest.raises(KeyError):
        work(KeyError("x"))
    for _ in range(2):  # again and again
        with pytest.raises(NotEnoughMemory, match="first"):
            work(NotEnoughMemory("first"))
