"""Every script of examples/ runs, on the bundled model, and shows what it promises."""

import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from knnmt.methods import registry

EXAMPLES = Path(__file__).parents[1] / "examples"

Run = Callable[..., str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the examples' memory: a script that builds it finds that it has nothing to add."""
    import knnmt

    store = tmp_path_factory.mktemp("examples") / "store"
    knnmt.build(store, [EXAMPLES / "espresso" / f"memory.{lang}" for lang in ("de", "en")], model="de-en-small")
    return store


@pytest.fixture
def run(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    shutil.copytree(built, tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))

    def script(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        code: str | int = 0
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        except SystemExit as ending:  # of the command
            code = ending.code or 0
        result = capsys.readouterr()
        assert code == 0, result.err
        return result.out

    return script


def test_build_and_translate(run: Run) -> None:
    out = run("build_and_translate.py", "store")
    assert "NLL of the dev tokens:" in out
    assert out.count("with the memory:") == out.count("model alone:") == 3
    assert "water tank" in out


def test_attach_to_generate(run: Run) -> None:
    out = run("attach_to_generate.py", "store")
    assert "water tank" in out.split("beam search:")[1]


def test_explain_a_word(run: Run) -> None:
    out = run("explain_a_word.py", "store")
    assert "of the vote is the memory's" in out
    assert "memory.de" in out


def test_fit_without_dev(run: Run) -> None:
    out = run("fit_without_dev.py", "store")
    assert "self-trained    BLEU" in out


def test_own_method(run: Run) -> None:
    """Fitted, evaluated and used from the command line."""
    dev, test = ([str(EXAMPLES / "espresso" / f"{name}.{lang}") for lang in ("de", "en")] for name in ("dev", "test"))
    assert "--bonus" in run("own_method.py", "fit", "--help")
    fitted = run("own_method.py", "fit", "store", *dev, "--method", "phrases", "--k", "8", "--bonus", "2")
    assert "phrases (k 8" in fitted
    assert "phrases" in run("own_method.py", "evaluate", "store", *test, "--methods", "base,phrases", "--limit", "3")
    assert "phrases" in run("own_method.py", "info", "store")
