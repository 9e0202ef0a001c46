"""Too little memory: one sentence that says so, and none that a store is damaged or a name is wrong."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from knnmt.corpus import lines
from knnmt.search.searcher import Searcher

Run = Callable[..., Any]
LINE = b"Der Hund.\n"
MAPPING = OSError(errno.ENOMEM, "Cannot allocate memory")
TORCH = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 80000000000 bytes.")


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (np, "load", MAPPING),
        (np, "load", MemoryError()),
        (pa, "memory_map", MAPPING),
        (pa, "memory_map", pa.ArrowMemoryError("malloc of size 64 failed")),
        (AutoConfig, "from_pretrained", MAPPING),
        (AutoModelForSeq2SeqLM, "from_pretrained", TORCH),
        (AutoModelForSeq2SeqLM, "from_pretrained", ImportError("libx.so: failed to map segment from shared object")),
        (Searcher, "search", MemoryError("std::bad_alloc")),
        (torch, "cat", TORCH),
    ],
    ids=lambda value: getattr(value, "__name__", None) or repr(value)[:40],
)
def test_translating(
    run: Run, world: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(owner, name, fail)
    check(run("translate", "store", stdin=LINE))


def test_a_corpus_and_an_index(run: Run, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("build", "store", "--index", "ivf")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("std::bad_alloc")

    with monkeypatch.context() as patch:
        patch.setattr(faiss, "read_index", fail)
        check(run("translate", "store", stdin=LINE))
    with monkeypatch.context() as patch:
        patch.setattr(lines, "_decode", fail)  # told as an archive that cannot be unpacked, on the way
        check(run("build", "store", "memory.de", "memory.en"))
    assert run("translate", "store", stdin=LINE).code == 0, "nothing was wrong with the store"


def check(result: Any) -> None:
    assert result.code == 2, result.err
    assert result.out == ""
    (sentence,) = result.complaints
    assert sentence.startswith("knnmt: There is not enough memory to ")
    assert "close other programs" in sentence
    assert "damaged" not in sentence
    assert "restore" not in sentence
    assert "check its name" not in sentence
