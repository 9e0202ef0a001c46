import gzip
import unicodedata
from pathlib import Path

import polib
import pytest

from knnmt.corpus import Corpus, has_text

UNSEEN = [
    "",
    " \t\u3000\u00a0",
    "\u200b",
    "\u200d\u200c\u2060",
    "\ufeff",
    "\u00ad",
    "\0",
    "\x1b\x7f\x85",
    "\u202a\u202c",
    "\ufe0f",
    "\u3164",
    "\u2800",
    "\U000e0061",
]


@pytest.mark.parametrize("text", UNSEEN, ids=ascii)
def test_what_nobody_sees_is_no_text(text: str) -> None:
    assert not has_text(text)
    assert has_text(f"{text}a{text}")


def test_whatever_can_be_seen_is_text() -> None:
    for text in ("a", "。", "😀", "0", "-", "\u0600", "\u06dd", "\ufffc", "\ufffd", "\ue000", "\u0301"):
        assert has_text(text), ascii(text)
    shown = {
        "\u0600",
        "\u0601",
        "\u0602",
        "\u0603",
        "\u0604",
        "\u0605",
        "\u06dd",
        "\u070f",
        "\u0890",
        "\u0891",
        "\u08e2",
    }
    for code in range(0x10000):
        sign = chr(code)
        if unicodedata.category(sign) in {"Cc", "Cf", "Zs", "Zl", "Zp"}:
            assert has_text(sign) == (sign in shown), ascii(sign)
        elif unicodedata.category(sign) in {"Ll", "Lu", "Nd", "Po", "Sm"}:
            assert has_text(sign), ascii(sign)


@pytest.mark.parametrize("side", ["\u200b", "\ufeff \u00ad"], ids=ascii)
def test_such_a_side_is_empty_in_every_format(tmp_path: Path, side: str) -> None:
    unit = '<tu><tuv xml:lang="de"><seg>{}</seg></tuv><tuv xml:lang="en"><seg>{}</seg></tuv></tu>'
    units = unit.format("ja", "yes") + unit.format("nein", side)
    catalogue = polib.POFile()
    catalogue.metadata = {"Language": "de", "Content-Type": "text/plain; charset=UTF-8"}
    catalogue.extend([polib.POEntry(msgid="yes", msgstr="ja"), polib.POEntry(msgid="no", msgstr=side)])
    texts = {
        "a.tsv": f"ja\tyes\nnein\t{side}\n{side}\n",
        "a.jsonl": f'{{"source": "ja", "target": "yes"}}\n{{"source": "nein", "target": "{side}"}}\n{side}\n',
        "a.tmx": f'<?xml version="1.0"?><tmx version="1.4"><body>{units}</body></tmx>',
        "a.po": str(catalogue),
        "a.de": f"ja\nnein\n{side}\n",
        "a.en": f"yes\n{side}\nno\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for names, left_out in (
        (["a.tsv"], {"empty": 2}),
        (["a.jsonl"], {"empty": 2}),
        (["a.tmx"], {"untranslated": 1}),
        (["a.po"], {"untranslated": 1}),
        (["a.de", "a.en"], {"empty": 2}),
    ):
        corpus = Corpus([tmp_path / name for name in names], languages=("de", "en"))
        assert [(pair.source, pair.target) for pair in corpus] == [("ja", "yes")]
        assert corpus.scan().left_out == left_out


def test_a_sign_nobody_sees_within_a_text_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress("Auf\u00adlage\tedi\u200btion\n".encode()))
    assert [(pair.source, pair.target) for pair in Corpus([path])] == [("Auf\u00adlage", "edi\u200btion")]
