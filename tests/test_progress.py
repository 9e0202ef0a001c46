"""Progress is shown to those who ask for it: a bar on a terminal, elsewhere a line with rate and time left."""

import subprocess
import sys
import time
from contextlib import suppress

import pytest

from knnmt.progress import Meter, _Bar, progress, progress_is_shown, show_progress


def test_lines_tell_rate_and_time_left(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with show_progress(), progress("Building", total=100, unit="tokens") as meter:
        meter.skip(60)  # a build that was taken up
        clock[0] += 10
        meter.advance(10, units=500)
        assert capsys.readouterr().err == "", "no line before half a minute"
        clock[0] += 30
        meter.advance(10, units=500)
    assert capsys.readouterr().err == "Building: 80 of 100, 25 tokens/s, 40 s left\n"


def test_lines_tell_how_the_work_stands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many words on the way only the last are shown, with the next line and not before."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with show_progress(), progress("Training robust", total=50, unit="updates") as meter:
        for update in range(40):
            clock[0] += 1
            meter.advance(1, units=1)
            if update < 35:
                meter.status(f"loss {update}")
            if update == 28:
                assert capsys.readouterr().err == ""
        assert capsys.readouterr().err == "Training robust: 30 of 50, 1 updates/s, 20 s left (loss 28)\n"
        clock[0] += 30
        meter.advance(1, units=1)
    assert capsys.readouterr().err == "Training robust: 41 of 50, 0.6 updates/s, 15 s left (loss 34)\n"


def test_a_bar_shows_it_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    with show_progress(), progress("Training robust", total=50, unit="updates") as meter:
        meter.advance(7, units=7)
        meter.status("loss 1.234")
        assert isinstance(meter, _Bar)
        meter.progress.refresh()
        assert "loss 1.234" in capsys.readouterr().err


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_is_shown_unless_somebody_asks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("knnmt.progress.QUIET_INTERVAL", 0.0)
    with progress("Building", total=100, unit="tokens") as meter:
        meter.skip(60)
        meter.advance(10, units=500)
        meter.status("loss 1.234")
    assert type(meter) is Meter
    assert (meter.done, meter.units) == (70, 500)
    assert capsys.readouterr() == ("", "")


def test_asking_ends_with_its_block() -> None:
    assert not progress_is_shown()
    with show_progress():
        with suppress(KeyboardInterrupt), show_progress():
            raise KeyboardInterrupt
        assert progress_is_shown()
    assert not progress_is_shown()


def test_the_log_is_silent_unless_somebody_listens() -> None:
    """In a process of its own: pytest listens."""
    program = "import logging, knnmt; logging.getLogger('knnmt.datastore').warning('waiting')"
    for more, shown in (
        ("", ""),
        ("logging.basicConfig(format='%(name)s %(message)s'); ", "knnmt.datastore waiting\n"),
    ):
        command = [sys.executable, "-c", program.replace("; ", f"; {more}", 1)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert (done.stdout, done.stderr) == ("", shown)
