import gzip
import struct
from pathlib import Path

import polib
import pytest

from knnmt.corpus import catalogue
from knnmt.corpus.catalogue import parse_catalogue, read_catalogue
from knnmt.corpus.pair import Pair, Part
from knnmt.errors import CorpusError

HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n{}\n'
GERMAN = '"Language: de\\n"\n"Plural-Forms: nplurals=2; plural=n != 1;\\n"\n'
ENTRIES = """
msgid "Cancel order"
msgstr "Bestellung stornieren"

#, python-format
msgctxt "button"
msgid ""
"Two lines,\\n"
"  one \\"sentence\\"."
msgstr "Zwei Zeilen,\\nein\\u00a0Satz."

#, fuzzy
msgid "Guess"
msgstr "Geraten"

msgid "Not yet"
msgstr ""

msgid "%d ticket"
msgid_plural "%d tickets"
msgstr[0] "%d Karte"
msgstr[1] "%d Karten"

#~ msgid "Old"
#~ msgstr "Alt"
""".replace("\\u00a0", "\u00a0")


def write(path: Path, entries: str = ENTRIES, header: str = GERMAN) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = HEADER.format(header) + entries
    if path.suffix == ".mo":
        polib.pofile(text).save_as_mofile(str(path))
    else:
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def read(path: Path, languages: tuple[str, str] | None = ("de", "en")) -> list[Pair]:
    return list(read_catalogue(Part((path,), "shop", languages)))


def texts(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs if not pair.unfit]


@pytest.mark.parametrize("name", ["shop.po", "shop.po.gz"])
def test_entries_are_turned_to_the_models_direction(tmp_path: Path, name: str) -> None:
    pairs = read(write(tmp_path / name))
    assert texts(pairs) == [
        ("Bestellung stornieren", "Cancel order"),
        ("Zwei Zeilen, ein\u00a0Satz.", 'Two lines, one "sentence".'),
        ("%d Karte", "%d ticket"),
        ("%d Karten", "%d tickets"),
    ]
    assert [(pair.line, pair.unfit) for pair in pairs] == [
        (8, ""),
        (11, ""),
        (18, "fuzzy"),
        (22, "untranslated"),
        (25, ""),
        (25, ""),
        (30, "obsolete"),
    ]
    assert {pair.origin for pair in pairs} == {"shop"}
    there = texts(read(tmp_path / name, ("en", "de")))
    assert there == [(target, source) for source, target in texts(pairs)]


def test_compiled_catalogues_hold_the_same(tmp_path: Path) -> None:
    pairs = read(write(tmp_path / "shop.mo"))
    assert sorted(texts(pairs)) == sorted(texts(read(write(tmp_path / "shop.po"))))
    assert [pair.line for pair in pairs] == [1, 1, 2, 3], "entries are numbered where there are no lines"


@pytest.mark.parametrize(
    ("header", "forms", "expected"),
    [
        ("nplurals=1; plural=0;", ["%d枚"], [("%d枚", "%d tickets")]),
        ("nplurals=2; plural=n > 1;", ["a", "b"], [("a", "%d ticket"), ("b", "%d tickets")]),
        (
            "nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2);",
            ["zero", "one", "many"],
            [("zero", "%d tickets"), ("one", "%d ticket"), ("many", "%d tickets")],
        ),
        ("nplurals=2; plural=what(n);", ["a", "b"], [("a", "%d ticket"), ("b", "%d tickets")]),
        ("", ["a", "b"], [("a", "%d ticket"), ("b", "%d tickets")]),
        ("nplurals=2; plural=n != 1;", ["a"], [("a", "%d ticket")]),
        ("nplurals=2; plural=n != 1;", [], []),
    ],
)
def test_the_form_for_one_thing_goes_with_the_singular(
    tmp_path: Path, header: str, forms: list[str], expected: list[tuple[str, str]]
) -> None:
    entry = 'msgid "%d ticket"\nmsgid_plural "%d tickets"\n'
    entry += "".join(f'msgstr[{index}] "{form}"\n' for index, form in enumerate(forms))
    path = write(tmp_path / "a.po", entry, f'"Language: ja\\n"\n"Plural-Forms: {header}\\n"\n')
    assert texts(read(path, ("ja", "en"))) == expected


ONE = 'msgid "yes"\nmsgstr "ja"\n'


@pytest.mark.parametrize(
    ("name", "header", "languages"),
    [
        ("shop.po", '"Language: de_DE\\n"\n', ("deu_Latn", "eng_Latn")),
        ("de/LC_MESSAGES/shop.po", "", ("de", "en")),
        ("de/LC_MESSAGES/shop.po", '"Language: en\\n"\n', ("de", "en")),
        ("po/de.po", "", ("de", "en")),
        ("po/de_AT.mo", "", ("de", "en")),
        ("de_DE.UTF-8/LC_MESSAGES/shop.po", "", ("de", "en")),
        ("de@hebrew/LC_MESSAGES/shop.po", "", ("de", "en")),
        ("de_Informal/LC_MESSAGES/shop.po", "", ("de", "en")),
        ("locale/LC_MESSAGES/de.po", "", ("de", "en")),
        ("lc/LC_MESSAGES/shop.po", '"Language: de\\n"\n', ("de", "en")),
        ("po/sr@latin.po", "", ("sr", "en")),
        ("de/LC_MESSAGES/api/shop.po", "", ("de", "en")),
        ("shop.po", '"Language: de_DE@euro\\n"\n', ("de", "en")),
        ("shop.po", '"Language: de\\n"\n"X-Source-Language: sv\\n"\n', ("de", "sv")),
    ],
)
def test_the_language_is_said_by_directory_header_or_name(
    tmp_path: Path, name: str, header: str, languages: tuple[str, str]
) -> None:
    assert texts(read(write(tmp_path / name, ONE, header), languages)) == [("ja", "yes")]


@pytest.mark.parametrize(
    ("name", "header", "languages", "sentence"),
    [
        ("shop.po", GERMAN, ("fr", "en"), r"shop\.po translates en into de, but the model fr into en"),
        ("shop.po", GERMAN, None, "does not say which it translates: say it with --source-lang"),
        ("shop.po", "", ("de", "en"), "does not say its language: add a Language line"),
        ("app.po", "", ("app", "en"), "does not say its language"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, name: str, header: str, languages: tuple[str, str] | None, sentence: str
) -> None:
    with pytest.raises(CorpusError, match=sentence):
        read(write(tmp_path / name, ONE, header), languages)


def test_other_encodings_are_read_as_the_header_says(tmp_path: Path) -> None:
    header = HEADER.replace("UTF-8", "ISO-8859-1").format(GERMAN)
    path = tmp_path / "old.po"
    path.write_bytes((header + 'msgid "door"\nmsgstr "Tür"\n').replace("\n", "\r\n").encode("latin-1"))
    assert texts(read(path)) == [("Tür", "door")]


def test_what_only_python_takes_for_a_line_end_is_a_space(tmp_path: Path) -> None:
    entries = 'msgid "a\x85b\u2029"\nmsgstr "x\u2028y \u2028"\n\nmsgid "c"\nmsgstr "d"\n'
    pairs = read(write(tmp_path / "a.po", entries))
    assert [(pair.source, pair.target, pair.line) for pair in pairs] == [("x y", "a b", 7), ("d", "c", 10)]
    compiled = polib.POFile()
    compiled.metadata = {"Language": "de", "Content-Type": "text/plain; charset=UTF-8"}
    compiled.append(polib.POEntry(msgid="a\x85b\u2029", msgstr="x\u2028y \u2028"))
    compiled.save_as_mofile(str(tmp_path / "a.mo"))
    assert texts(read(tmp_path / "a.mo")) == [("x y", "a b")]


@pytest.mark.parametrize("blank", ["", " \n", "\r"])
def test_headers_of_all_kinds(tmp_path: Path, blank: str) -> None:
    """No blank line behind it, one that is not quite blank, line ends of an old Mac."""
    text = HEADER.format(GERMAN).rstrip("\n") + "\n" + blank + ONE
    path = tmp_path / "shop.po"
    path.write_bytes((text.replace("\n", "\r") if blank == "\r" else text).encode())
    assert texts(read(path)) == [("ja", "yes")]
    found = parse_catalogue(path)
    assert (found.written_in, found.translated_into, found.fit) == ("en", "de", 1)


def test_a_file_is_never_taken_for_the_name_of_another(tmp_path: Path) -> None:
    other = write(tmp_path / "other.mo", ONE)
    (tmp_path / "a.mo").write_bytes(str(other).encode())
    with pytest.raises(CorpusError, match="no catalogue that can be read"):
        read(tmp_path / "a.mo")


def test_a_file_that_unpacks_to_anything_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "_LARGEST", 1 << 20)
    path = tmp_path / "a.po.gz"
    path.write_bytes(gzip.compress(bytes(1 << 24)))
    with pytest.raises(CorpusError, match=r"a\.po\.gz is no catalogue that can be read \(it is larger than 1 MiB\)"):
        read(path)


def test_what_a_translator_may_write_is_a_closed_string(tmp_path: Path) -> None:
    entries = 'msgid "say \\"a\\" \\\\"\t\n  msgstr\t"sag"\n  " \\"a\\""\u00a0\n#~ msgid "ol\n'
    assert texts(read(write(tmp_path / "a.po", entries))) == [('sag "a"', 'say "a" \\')]


def big_endian(compiled: bytes) -> bytes:
    (count,) = struct.unpack_from("<I", compiled, 8)
    numbers = struct.unpack_from(f"<{7 + 4 * count}I", compiled)
    return struct.pack(f">{len(numbers)}I", *numbers) + compiled[4 * len(numbers) :]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_compiled_catalogue_that_is_cut_short_is_told(tmp_path: Path, swapped: bool) -> None:
    compiled = write(tmp_path / "a.mo").read_bytes()
    compiled = big_endian(compiled) if swapped else compiled
    path = tmp_path / "cut.mo"
    path.write_bytes(compiled[:-1])  # the last string is whole
    assert texts(read(path)) == texts(read(tmp_path / "a.mo"))
    for size in range(len(compiled) - 1):
        path.write_bytes(compiled[:size])
        with pytest.raises(CorpusError, match=r"cut\.mo is no catalogue that can be read"):
            read(path)


def test_strings_that_lie_on_one_another_do_not_fill_the_memory(tmp_path: Path) -> None:
    count = 1000
    head = struct.pack("<7I", 0x950412DE, 0, count, 28, 28, 0, 0)
    size = len(head) + 8 * count
    (tmp_path / "a.mo").write_bytes(head + struct.pack("<2I", size, 0) * count)
    with pytest.raises(CorpusError, match=r"\(it is cut short, or its tables are damaged\)"):
        read(tmp_path / "a.mo")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.po", b'msgid "a"\nmsgstr "T\xc3\xbcr'),
        ("a.po", b'msgid "a"\nmsgstr ""\n"T\xc3\xbcr\\"\n'),
        ("a.po", b'msgid "a"\nmsgid_plural "b"\nmsgstr[0] "c'),
        ("a.po", b'msgid "a"\nmsgid_plural "b"\nmsgstr[0]'),
        ("a.po", b'msgid door\nmsgstr "T\xc3\xbcr"\n'),
        ("a.po", b'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-7\\n"\n\nmsgid "a"\nmsgstr "+2AA-"\n'),
        ("a.po", b'msgid "a"b"\nmsgstr "b"\n'),
        ("a.po", b"just some text\nof no catalogue\n"),
        ("a.po", 'msgid "a"\nmsgstr "ä"\n'.encode("latin-1")),
        ("a.po", b'msgid ""\nmsgstr "Content-Type: text/plain; charset=klingon\\n"\n'),
        ("a.mo", b""),
        ("a.mo", b"\xde\x12\x04\x95\x00"),
        ("a.mo", b"\xde\x12\x04\x95" + b"\x00\x00\x00\x00" + b"\xff" * 20),
        ("a.mo", b"something else entirely"),
    ],
)
def test_what_is_no_catalogue_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"a\.\w+(\.gz)? is no catalogue that can be read \(.+\): check it"):
        read(path)
