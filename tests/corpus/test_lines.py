import gzip
from pathlib import Path

import pytest

from knnmt.corpus import lines
from knnmt.corpus.lines import read_lines
from knnmt.errors import CorpusError


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n\r\n", ["a", "b", ""]),
        (b"a\rb\n", ["a\rb"]),
        ("a\u2028b\u2029c\x0bd\x0ce\x1cf\x1dg\x1eh\x85i\n".encode(), ["a\u2028b\u2029c\x0bd\x0ce\x1cf\x1dg\x1eh\x85i"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\na", ["", "a"]),
    ],
)
def test_lines_end_at_line_feed_only(tmp_path: Path, name: str, content: bytes, expected: list[str]) -> None:
    assert list(read_lines(write(tmp_path / name, content))) == expected


@pytest.mark.parametrize("name", ["mac.txt", "mac.txt.gz"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\rb\r\rc", ["a", "b", "", "c"]),
        (b"a\rb\r", ["a", "b"]),
        (b"\xef\xbb\xbfa\r", ["a"]),
        (b"\ra", ["", "a"]),
    ],
)
def test_a_file_without_line_feeds_has_lines_that_end_at_carriage_return(
    tmp_path: Path, name: str, content: bytes, expected: list[str]
) -> None:
    assert list(read_lines(write(tmp_path / name, content))) == expected


def test_a_large_file_of_an_old_mac_is_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 10)
    monkeypatch.setattr(lines, "_CHUNK", 100)
    expected = [f"line {number}" for number in range(1000)]
    content = "\r".join(expected).encode()
    assert list(read_lines(write(tmp_path / "mac.txt", content))) == expected
    with pytest.raises(CorpusError, match=r"mixed\.txt has two kinds of line ends, CR and LF: convert all"):
        list(read_lines(write(tmp_path / "mixed.txt", content + b"\nend\n")))
    with pytest.raises(CorpusError, match=r"Line 1001 of .* is longer than"):
        list(read_lines(write(tmp_path / "long.txt", content + b"\r" + b"a" * 2000)))


def test_invalid_utf8_is_named_by_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "latin.txt", "gut\nschön\n".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"Line 2 of .*latin\.txt is not valid UTF-8"):
        list(read_lines(path))


@pytest.mark.parametrize("damage", ["truncated", "not gzip", "bad checksum", "bad data"])
def test_damaged_gzip(tmp_path: Path, damage: str) -> None:
    good = gzip.compress(b"".join(b"line %d\n" % (number * number) for number in range(5000)))
    content = {
        "truncated": good[: len(good) // 2],
        "not gzip": b"plain text\n",
        "bad checksum": good[:-8] + b"\0" * 8,
        "bad data": good[:200] + b"\xff" * 200 + good[400:],
    }[damage]
    path = tmp_path / "a.txt.gz"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"a\.txt\.gz is cut short or no gzip file"):
        list(read_lines(path))


def test_an_endless_line_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 20)
    path = write(tmp_path / "zeros.txt.gz", b"a\n" + bytes(1 << 24))
    with pytest.raises(CorpusError, match=r"Line 2 of .* is longer than 1 MiB"):
        list(read_lines(path))


def test_an_unreadable_file_is_a_corpus_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"gone\.txt cannot be read"):
        list(read_lines(tmp_path / "gone.txt"))
