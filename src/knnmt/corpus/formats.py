"""The formats of a corpus, by extension. A new format is one file with a reader and one line here."""

from dataclasses import dataclass
from pathlib import PurePath

from knnmt.corpus.catalogue import read_catalogue
from knnmt.corpus.jsonl import read_jsonl
from knnmt.corpus.pair import Reader
from knnmt.corpus.plain_text import read_plain_text
from knnmt.corpus.tmx import read_tmx
from knnmt.corpus.tsv import read_tsv


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    read: Reader


PLAIN_TEXT = Format("text", read_plain_text)  # every other extension; its files come in pairs

FORMATS = {
    ".tsv": Format("tsv", read_tsv),
    ".jsonl": Format("jsonl", read_jsonl),
    ".tmx": Format("tmx", read_tmx),
    ".po": Format("catalogue", read_catalogue),
    ".mo": Format("catalogue", read_catalogue),
}


def format_of(path: PurePath) -> Format:
    """The format by the file's extension, ignoring a final `.gz`."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return FORMATS.get(inner.suffix.lower(), PLAIN_TEXT)
