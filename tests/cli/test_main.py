"""The entry point: help, version, and how a command ends that cannot go on."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import knnmt.progress
import knnmt.workflow
from knnmt.cli.main import app

Run = Callable[..., Any]
COMMANDS = [command.callback.__name__ for command in app.registered_commands if command.callback]
PROGRAM = [sys.executable, "-m", "knnmt"]
# as most users have it: what is written waits in a buffer, and fails to be written only at the end
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def test_every_command_of_the_design_is_there() -> None:
    assert COMMANDS == ["demo", "build", "fit", "translate", "evaluate", "info", "use", "forget", "verify", "study"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = run(command, "--help")
    assert result.code == 0
    assert re.search(rf"Examples?:\s+knnmt {command}\b", result.out)
    assert ("STORE" in result.out) == (command not in ("demo", "study"))


def test_version(run: Run) -> None:
    result = run("--version")
    assert (result.code, result.out, result.err) == (0, f"{version('knnmt')}\n", "")


def test_without_arguments_there_is_help(run: Run) -> None:
    result = run()
    for command in COMMANDS:
        assert f" {command} " in result.out + result.err


def test_an_option_that_does_not_exist(run: Run) -> None:
    result = run("build", "store", "--colour", "red")
    assert result.code == 2
    assert result.out == ""
    assert "--colour" in result.err


def test_a_process_of_its_own(world: Path) -> None:
    """Nothing that other packages write is on standard output or error."""
    options: dict[str, Any] = {"capture_output": True, "encoding": "utf-8", "timeout": 120}
    good = subprocess.run([*PROGRAM, "translate", "store", "--beam", "2"], input="Der Hund.\n\nÄpfel\n", **options)
    assert good.returncode == 0, good.stderr
    assert good.stdout.count("\n") == 3
    assert good.stderr.startswith("method:vanilla|")
    assert good.stderr.count("\n") == 1
    bad = subprocess.run([*PROGRAM, "build", "new", "dev.de", "dev.en", "--model", "./store"], **options)
    assert bad.returncode == 2
    assert bad.stdout == ""
    assert bad.stderr.startswith("knnmt: ./store is not a Hugging Face model directory")
    assert bad.stderr.count("\n") == 1


def test_output_on_a_full_disk_is_a_sentence() -> None:
    options: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True, "timeout": 60, "env": BUFFERED}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*PROGRAM, "--version"], stdout=full, **options)
    assert done.returncode == 2
    assert done.stderr.startswith("knnmt: The disk is full")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    options: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True, "timeout": 60, "env": BUFFERED}
    done = subprocess.run([*PROGRAM, "--version"], stdout=writing, **options)
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == ""


def test_output_is_utf8_whatever_the_locale() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "latin-1", "COLUMNS": "200"}
    done = subprocess.run([*PROGRAM, "fit", "--help"], env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "K, λ and T" in done.stdout.decode("utf-8")


def test_an_interruption(run: Run, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(knnmt.workflow, "info", interrupt)
    result = run("info", "store")
    assert result.code == 130
    assert result.err.startswith("knnmt: Interrupted")
    assert result.err.count("\n") == 1


def test_a_fault_of_the_program_is_not_hidden(run: Run, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("surprise")

    monkeypatch.setattr(knnmt.workflow, "info", fail)
    with pytest.raises(OSError, match="surprise"):
        run("info", "store")


def test_progress_is_shown_by_the_command_and_not_by_the_library(
    run: Run, world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(knnmt.progress, "QUIET_INTERVAL", 0.0)
    assert "Verifying: " in run("verify", "store").err
    assert knnmt.workflow.verify("store") == []
    assert capsys.readouterr() == ("", "")


def test_what_the_library_logs_is_shown_as_long_as_the_command_runs(
    run: Run, world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wait(*_: object) -> None:
        logging.getLogger("knnmt.datastore.lock").warning("%s is written to; waiting.", "store")
        raise KeyboardInterrupt

    monkeypatch.setattr(knnmt.workflow, "info", wait)
    assert run("info", "store").err.startswith("warning: store is written to; waiting.\n")
    with pytest.raises(KeyboardInterrupt):
        wait()
    assert capsys.readouterr() == ("", "")
