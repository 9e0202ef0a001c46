"""Refuse files that are not a corpus, by extension or first bytes; the error says what to do."""

import codecs
from importlib.resources.abc import Traversable
from pathlib import PurePath

from knnmt.errors import CorpusError

_EXPORT_TMX = "export a TMX from the program that made it, or convert it to TSV or JSONL"
_SAVE_TSV = "save it as tab-separated text (.tsv): source, target and optionally origin"
_SAVE_TEXT = "save its sentences as plain text, one per line, in a source and a target file"
_UNPACK = "unpack it and give the files in it"

_BY_EXTENSION = {
    **dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff", ".txlf", ".ttx", ".xml"), _EXPORT_TMX),
    **dict.fromkeys((".sdltm", ".tmw", ".mtf", ".tbx"), _EXPORT_TMX),
    **dict.fromkeys((".csv", ".xlsx", ".xls", ".xlsm", ".ods"), _SAVE_TSV),
    ".json": "write JSONL, one object per line, or name it .jsonl if it is that",
    **dict.fromkeys((".parquet", ".arrow"), "convert it to JSONL or TSV"),
    **dict.fromkeys((".docx", ".doc", ".odt", ".rtf", ".pdf", ".pptx", ".html", ".htm", ".sgm", ".sgml"), _SAVE_TEXT),
    **dict.fromkeys((".tar", ".tgz", ".7z", ".rar", ".bz2", ".xz", ".zst"), _UNPACK),
}

_BY_FIRST_BYTES = {
    b"PK\x03\x04": ("a zip archive or an office document", "unpack it, or save it as text"),
    b"%PDF-": ("a PDF", _SAVE_TEXT),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an office document", "save it as text"),
    b"SQLite format 3\x00": ("a database", _EXPORT_TMX),
    b"BZh91AY&SY": ("compressed with bzip2", "unpack it"),
    b"\xfd7zXZ\x00": ("compressed with xz", "unpack it"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unpack it"),
}
_GZIP = b"\x1f\x8b"


def refuse_extension(path: PurePath) -> None:
    """Refuse a file that would be read as plain text although its extension says that it is not."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    if advice := _BY_EXTENSION.get(inner.suffix.lower()):
        raise CorpusError(f"{path} is a {inner.suffix} file, which knnmt does not read: {advice}.")


def refuse_binary(start: bytes, path: Traversable) -> None:
    """Refuse a file whose first line is not UTF-8 text but a known binary format or UTF-16."""
    if start.startswith(_GZIP):
        packed = path.name.lower().endswith(".gz")
        advice = "unpack it once" if packed else f"name it {path.name}.gz"
        raise CorpusError(f"{path} is compressed with gzip{' twice' if packed else ''}: {advice}.")
    for magic, (kind, advice) in _BY_FIRST_BYTES.items():
        if start.startswith(magic):
            raise CorpusError(f"{path} is {kind}, not text: {advice}.")
    if _is_utf16(start):
        raise CorpusError(f"{path} looks like UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`.")


def _is_utf16(start: bytes) -> bool:
    """Recognised by the byte order mark, or by zeros: every second byte of Western text is zero."""
    zeros = max(start[::2].count(0), start[1::2].count(0))
    return start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or (len(start) > 2 and 4 * zeros > len(start))
