"""Commands run in this process, in a directory with a model, corpora and a fitted store."""

import hashlib
import io
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import faiss
import pytest
import torch
from sentences import SENTENCES

from knnmt.cli import main
from knnmt.workflow import build, fit

NOTES = ("warning: ", "next: ", "method:")  # lines on standard error that are no errors


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def complaints(self) -> list[str]:
        """What standard error says besides notes."""
        return [line for line in self.err.splitlines() if not line.startswith(NOTES)]


Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here, and waiting for the disk would take most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory, family_directory: Callable[[str], Path]) -> Path:
    """memory, dev and test, and a store called store, made from memory and fitted to it, so that it helps."""
    root = tmp_path_factory.mktemp("pristine")
    for name, pairs in (("memory", SENTENCES[10:]), ("dev", SENTENCES[:4]), ("test", SENTENCES[4:8])):
        for side, language in enumerate(("de", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (root / f"{name}.{language}").write_text(text, encoding="utf-8")
    model = str(family_directory("marian"))
    store = build(root / "store", [root / "memory.de", root / "memory.en"], model, device="cpu", precision="float32")
    fit(store, [root / "memory.de", root / "memory.en"], "vanilla", decode_best=0, k=4, device="cpu")
    return root


@pytest.fixture
def world(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, where commands run."""
    shutil.copytree(pristine, tmp_path / "world")
    monkeypatch.chdir(tmp_path / "world")
    return tmp_path / "world"


@pytest.fixture(scope="session")
def model_name(family_directory: Callable[[str], Path]) -> str:
    return str(family_directory("marian"))


@pytest.fixture(autouse=True)
def threads_of_mine() -> Iterator[None]:
    """`--threads` is for the whole process, and later tests would have a second thread that mostly waits."""
    before = torch.get_num_threads(), faiss.omp_get_max_threads()
    yield
    torch.set_num_threads(before[0])
    faiss.omp_set_num_threads(before[1])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The `knnmt` command, from its entry point on."""

    def command(*arguments: str, stdin: bytes | str = b"") -> Result:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(main, "tune_allocator", lambda: True)
        monkeypatch.setattr(sys, "argv", ["knnmt", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        capsys.readouterr()
        with warnings.catch_warnings():  # the command's own way to show them ends here
            warnings.simplefilter("default")
            try:
                main.run()
                code = 0
            except SystemExit as ending:
                code = int(ending.code or 0)
        shown = capsys.readouterr()
        return Result(code, shown.out, shown.err)

    return command


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, str]]:
    """Every file of a directory with a hash of its content, and every directory."""

    def take(root: Path) -> dict[str, str]:
        return {
            str(path.relative_to(root)): hashlib.blake2b(path.read_bytes()).hexdigest() if path.is_file() else "/"
            for path in root.rglob("*")
        }

    return take
