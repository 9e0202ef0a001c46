"""Progress where there is no terminal: a quiet line with rate and time left."""

import pytest

import knnmt.progress


def test_lines_tell_rate_and_time_left(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(knnmt.progress.time, "monotonic", lambda: clock[0])
    with knnmt.progress.progress("Building", total=100, unit="tokens") as meter:
        meter.skip(60)  # a build that was taken up
        clock[0] += 10
        meter.advance(10, units=500)
        assert capsys.readouterr().err == "", "no line before half a minute"
        clock[0] += 30
        meter.advance(10, units=500)
    assert capsys.readouterr().err == "Building: 80 of 100, 25 tokens/s, 40 s left\n"
