"""Standard input as programs and people write it: answers as soon as they can be given."""

import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from sentences import SENTENCES

from knnmt.cli import standard_input
from knnmt.cli.standard_input import read_lines
from knnmt.errors import CorpusError

Run = Callable[..., Any]
PROGRAM = [sys.executable, "-c", "from knnmt.cli.main import run; run()"]
QUICK = ("--beam", "2", "--max-length", "12")
ONE, TWO = SENTENCES[10][0], SENTENCES[24][0]
PATIENCE = 60  # seconds that a test waits for what must come


class Pipe:
    """Standard input that a test writes to, and what is read from it: lines, None at a pause, and what is wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reading, self.writing = os.pipe()
        self.file = os.fdopen(reading, "rb", buffering=0)
        monkeypatch.setattr(sys, "stdin", self.file)
        self.found: Queue[str | CorpusError | None] = Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        try:
            for line in read_lines():
                self.found.put(line)
        except CorpusError as error:
            self.found.put(error)

    def write(self, content: bytes) -> None:
        os.write(self.writing, content)

    def next(self) -> str | CorpusError | None:
        return self.found.get(timeout=PATIENCE)

    def line(self) -> str | CorpusError:
        """The next that is not a pause."""
        while (found := self.next()) is None:
            pass
        return found

    def end(self) -> list[str | CorpusError]:
        """What is left, without pauses."""
        os.close(self.writing)
        self.reader.join(PATIENCE)
        self.file.close()
        left = [self.found.get() for _ in range(self.found.qsize())]
        return [each for each in left if each is not None]


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Pipe]:
    return lambda: Pipe(monkeypatch)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[bytes], list[str | None]]:
    """The lines of a file, which never makes one wait, and what is complained of; the same of what is no file."""

    def of(source: io.TextIOWrapper) -> list[str | None]:
        found: list[str | None] = []
        monkeypatch.setattr(sys, "stdin", source)
        with source:
            try:
                found.extend(read_lines())  # keeps what came before an error
            except CorpusError as error:
                found.append(str(error))
        return found

    def read(content: bytes) -> list[str | None]:
        (tmp_path / "input").write_bytes(content)
        found = of((tmp_path / "input").open())
        assert of(io.TextIOWrapper(io.BytesIO(content))) == found
        return found

    return read


def test_a_pause_is_told_before_the_next_line_is_written(pipe: Callable[[], Pipe]) -> None:
    source = pipe()
    for line in ("eins", "zwei", "", "drei"):
        source.write(f"{line}\n".encode())
        assert source.line() == line
        assert source.next() is None
    assert source.end() == []


def test_a_line_that_comes_in_parts(pipe: Callable[[], Pipe]) -> None:
    source = pipe()
    content = "eins\nzwölf\r\nfünf".encode()
    cut = content.index("ö".encode()) + 1  # in the middle of a character
    source.write(content[:cut])
    assert (source.line(), source.next()) == ("eins", None)
    source.write(content[cut:])
    assert (source.line(), source.next()) == ("zwölf", None)
    assert source.end() == ["fünf"], "no end of line at the end"


def test_a_pipe_that_drips_has_pauses_too(pipe: Callable[[], Pipe], monkeypatch: pytest.MonkeyPatch) -> None:
    """Something comes before every pause is over."""
    monkeypatch.setattr(standard_input, "_PAUSE", PATIENCE)
    monkeypatch.setattr(standard_input, "_LONGEST_WAIT", 0.01)
    source = pipe()
    found: list[object] = []
    while not (found and found[-1] is None):
        source.write(b"eins\n")
        time.sleep(0.001)
        found += [source.next() for _ in range(source.found.qsize())]
    source.end()


def test_a_file_has_no_pauses(read: Callable[[bytes], list[str | None]]) -> None:
    lines = [f"Zeile {number} {'x' * (number % 300)}" for number in range(2000)]  # several reads
    assert read("".join(f"{line}\n" for line in lines).encode()) == lines


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\r\nb\r\n\r\n", ["a", "b", ""]),
        (b"a\rb\n", ["a\rb"]),
        (b"\n\na\n\n", ["", "", "a", ""]),
        (b"\xef\xbb\xbfa\nb", ["a", "b"]),
        ("a\u2028b\x85c\x0cd\n".encode(), ["a\u2028b\x85c\x0cd"]),
    ],
)
def test_what_is_a_line(content: bytes, expected: list[str], read: Callable[[bytes], list[str | None]]) -> None:
    assert read(content) == expected


def test_what_is_no_text_ends_it_with_its_number(read: Callable[[bytes], list[str | None]]) -> None:
    for content in (b"a\nb\nc\nd\nf\xfcnf\ne\n", b"a\nb\nc\nd\nf\xfcnf"):
        *lines, pause, complaint = read(content)
        assert lines == ["a", "b", "c", "d"]
        assert pause is None, "so that they are answered first"
        assert str(complaint).startswith("Line 5 of standard input is not valid UTF-8")


def test_a_line_without_end(
    read: Callable[[bytes], list[str | None]], pipe: Callable[[], Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standard_input, "LONGEST_LINE", 1000)
    assert read(b"x" * 1000 + b"\n") == ["x" * 1000]
    for content in (b"a\n" + b"x" * 1001, b"a\n" + b"x" * 1001 + b"\nb\n"):
        line, pause, complaint = read(content)
        assert (line, pause) == ("a", None)
        assert str(complaint).startswith("Line 2 of standard input is longer than")
    endless = pipe()
    endless.write(b"x" * 1001)
    assert str(endless.line()).startswith("Line 1 of standard input is longer"), "its end is not waited for"
    endless.end()


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert list(read_lines()) == []
    descriptor = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(sys, "stdin", _Opened(descriptor))
    with pytest.raises(CorpusError, match=r"^Standard input cannot be read"):
        list(read_lines())
    os.close(descriptor)


class _Opened:
    """A directory, which Python's own files refuse to open."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def fileno(self) -> int:
        return self.descriptor


def test_the_command_answers_line_by_line(world: Path) -> None:
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*PROGRAM, "translate", "store", *QUICK], **options) as command:
        late = threading.Timer(PATIENCE, command.kill)
        late.start()
        assert command.stdin is not None
        assert command.stdout is not None
        answers = []
        for line in (ONE, "", TWO):
            command.stdin.write(f"{line}\n".encode())
            command.stdin.flush()
            answers.append(command.stdout.readline())
        command.stdin.close()
        assert command.stdout.read() == b""
        assert command.wait(PATIENCE) == 0
        late.cancel()
    assert answers[1] == b"\n"
    assert answers[0].strip()
    assert answers[0] != answers[2]


def test_the_command_translates_what_is_before_a_line_that_is_no_text(run: Run, world: Path) -> None:
    good = run("translate", "store", *QUICK, stdin=f"{ONE}\n{TWO}\n")
    bad = run("translate", "store", *QUICK, stdin=f"{ONE}\n{TWO}\n".encode() + b"f\xfcnf\nEin Hund.\n")
    assert bad.code == 2
    assert bad.out == good.out
    (sentence,) = bad.complaints
    assert sentence.startswith("knnmt: Line 3 of standard input is not valid UTF-8")
