import gzip
import io
import lzma
import zipfile
from pathlib import Path

import pytest

from knnmt.corpus import Corpus
from knnmt.errors import CorpusError


@pytest.mark.parametrize("packed", ["", ".gz", ".GZ"])
@pytest.mark.parametrize(
    ("extension", "advice"),
    [
        (".csv", r"save it as tab-separated text \(\.tsv\)"),
        (".XLSX", r"save it as tab-separated text \(\.tsv\)"),
        (".xlf", "export a TMX from the program that made it, or convert it to TSV or JSONL"),
        (".xliff", "export a TMX"),
        (".sdlxliff", "export a TMX"),
        (".xml", "export a TMX"),
        (".json", "write JSONL, one object per line"),
        (".docx", "save its sentences as plain text, one per line"),
        (".sgm", "save its sentences as plain text, one per line"),
        (".tar", "unpack it and give the files in it"),
    ],
)
def test_what_is_no_plain_text_is_told_by_its_extension(
    tmp_path: Path, extension: str, advice: str, packed: str
) -> None:
    other, text = tmp_path / f"m{extension}{packed}", tmp_path / "m.de"
    content = b"ja\nnein\n"
    other.write_bytes(gzip.compress(content) if packed else content)
    text.write_bytes(content)
    for paths in ([other], [other, tmp_path / f"m{extension}{packed}"], [text, other], [other, text]):
        with pytest.raises(CorpusError, match=rf"m{extension}{packed} is a {extension} file, which .* read: {advice}"):
            Corpus(paths).scan()


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt", (1980, 1, 1, 0, 0, 0)), "ja\n")  # its header is half zeros
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(b"ja\n", mtime=0), r"a is compressed with gzip: name it a\.gz\."),
        (zipped(), "a is a zip archive or an office document, not text: unpack it, or save it as text"),
        (b"%PDF-1.7\n", "a is a PDF, not text: save its sentences"),
        (lzma.compress(b"ja\n"), "a is compressed with xz, not text: unpack it"),
        ("ja\nnein\n".encode("utf-16"), "a looks like UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`"),
        ("ja\nnein\n".encode("utf-16-le"), "a looks like UTF-16"),
        ("ja\nnein\n".encode("utf-16-be"), "a looks like UTF-16"),
        (b"ja\nne\0in\n", r"Line 2 of .*a holds a NUL byte, .*: check the file, or take such bytes out with"),
        (b"ja und nein\0\n", "Line 1 of .*a holds a NUL byte"),
    ],
)
def test_what_is_no_text_is_told_by_its_bytes(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "b").write_text("yes\nno\n")
    with pytest.raises(CorpusError, match=sentence):
        Corpus([tmp_path / "a", tmp_path / "b"]).scan()
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(content))
    with pytest.raises(CorpusError):
        Corpus([tmp_path / "a.tsv.gz"]).scan()


def test_a_file_compressed_twice(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(gzip.compress(b"ja\tyes\n")))
    with pytest.raises(CorpusError, match=r"a\.tsv\.gz is compressed with gzip twice: unpack it once"):
        Corpus([tmp_path / "a.tsv.gz"]).scan()


def test_an_archive_without_catalogues_is_to_be_unpacked(tmp_path: Path) -> None:
    (tmp_path / "moses.zip").write_bytes(zipped())
    with pytest.raises(CorpusError, match=r"moses\.zip holds no message catalogue .*: unpack it and name the corpus"):
        Corpus([tmp_path / "moses.zip"], languages=("de", "en")).scan()


def test_nul_in_an_escape_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"source": "ja", "target": "y\\u0000es"}\n')
    with pytest.raises(CorpusError, match=r"Line 1 of .*a\.jsonl holds NUL, which is no text"):
        Corpus([tmp_path / "a.jsonl"]).scan()
    (tmp_path / "de.po").write_bytes(b'msgid "yes"\nmsgstr "j\0a"\n')
    with pytest.raises(CorpusError, match=r"de\.po is no catalogue that can be read \(it holds NUL"):
        Corpus([tmp_path / "de.po"], languages=("de", "en")).scan()
