import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from knnmt.corpus import Corpus
from knnmt.corpus.pair import Pair, Part
from knnmt.corpus.tmx import read_tmx
from knnmt.errors import CorpusError

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    '<tmx version="1.4"><header srclang="en-US" segtype="sentence" datatype="xml"/><body>\n'
)
TAIL = "</body></tmx>\n"


def unit(**texts: str) -> str:
    variants = "".join(
        f'<tuv xml:lang="{language.replace("_", "-")}"><seg>{text}</seg></tuv>' for language, text in texts.items()
    )
    return f'<tu tuid="x"><prop type="x">ignored</prop>{variants}</tu>\n'


def read(directory: Path, body: str, languages: tuple[str, str] | None = ("de", "en")) -> list[Pair]:
    path = directory / "memory.tmx"
    path.write_text(HEAD + body + TAIL, encoding="utf-8")
    return list(read_tmx(Part((path,), "memory", languages)))


def test_a_pair_for_each_unit_in_the_models_direction(tmp_path: Path) -> None:
    body = unit(en_US="Turn it off.", de_DE="Schalten Sie es aus.") + unit(en="door", fr="porte", de="Tür")
    body += unit(en="only English") + unit(en="empty", de="") + unit()
    assert read(tmp_path, body) == [
        Pair("Schalten Sie es aus.", "Turn it off.", "memory", 1),
        Pair("Tür", "door", "memory", 2),
        Pair("", "only English", "memory", 3, "untranslated"),
        Pair("", "empty", "memory", 4, "untranslated"),
        Pair("", "", "memory", 5, "untranslated"),
    ]
    assert read(tmp_path, body, ("eng_Latn", "fra_Latn"))[1] == Pair("door", "porte", "memory", 2)
    summary = Corpus([tmp_path / "memory.tmx"], languages=("de", "en")).scan()
    assert (summary.pairs, summary.left_out) == (2, {"untranslated": 3})


def test_of_variants_the_nearest(tmp_path: Path) -> None:
    body = unit(de_AT="Jänner", de_DE="Januar", en_GB="January", en_US="Jan.")
    assert [(pair.source, pair.target) for pair in read(tmp_path, body)] == [("Januar", "Jan.")]
    assert [(pair.source, pair.target) for pair in read(tmp_path, body, ("de_AT", "en_GB"))] == [("Jänner", "January")]
    body = unit(de_DE="", de_AT="Jänner", en="January")
    assert [(pair.source, pair.target) for pair in read(tmp_path, body)] == [("Jänner", "January")]
    with pytest.raises(CorpusError, match="no unit in both en_GB and en_US"):
        read(tmp_path, body, ("en_GB", "en_US"))


@pytest.mark.parametrize("language", ['xml:lang=""', ""])
def test_a_text_without_a_language_is_nobodys(tmp_path: Path, language: str) -> None:
    nameless = f"<tuv {language}><seg>a note</seg></tuv>"
    body = unit(en="door", de="Tür") + unit(en="key") + unit(de="Schloss")
    pairs = read(tmp_path, body.replace("</tu>", f"{nameless}</tu>"))
    assert [(pair.source, pair.target) for pair in pairs] == [("Tür", "door"), ("", "key"), ("Schloss", "")]
    with pytest.raises(CorpusError, match=r"\(its languages: en\)"):
        read(tmp_path, unit(en="key").replace("</tu>", f"{nameless}</tu>"))


def test_codes_are_left_out_and_highlighted_text_is_not(tmp_path: Path) -> None:
    segment = (
        "Press <bpt i='1'>&lt;b&gt;</bpt>Start<ept i='1'>&lt;/b&gt;</ept> <hi>now <ph>{0}</ph>or</hi> never"
        "<it pos='begin'>x</it>.<!-- a comment -->\n  <ut>\\par</ut>It's &amp; ends. "
    )
    [pair] = read(tmp_path, unit(en=segment, de="x"))
    assert pair.target == "Press Start now or never. It's & ends."


@pytest.mark.parametrize(("encoding", "name"), [("utf-16", "m.tmx"), ("utf-8-sig", "m.tmx"), ("utf-8", "m.tmx.gz")])
def test_what_tools_export(tmp_path: Path, encoding: str, name: str) -> None:
    text = (HEAD.replace("UTF-8", encoding.removesuffix("-sig")) + unit(en="door", de="Tür") + TAIL).encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert [(pair.source, pair.target) for pair in Corpus([path], languages=("de", "en"))] == [("Tür", "door")]


def test_older_memories_say_lang(tmp_path: Path) -> None:
    body = unit(EN="door", DE="Tür").replace("xml:lang", "lang")
    assert [(pair.source, pair.target) for pair in read(tmp_path, body)] == [("Tür", "door")]


@pytest.mark.parametrize(
    ("body", "languages", "sentence"),
    [
        (unit(en="a", fr="b"), ("de", "en"), r"no unit in both de and en \(its languages: en, fr\): give"),
        ("", ("de", "en"), r"no unit in both de and en \(its languages: none\)"),
        (unit(en="a", de="b"), None, "does not say which it translates: say it with --source-lang"),
        (unit(en="a", de="b") + "<tu>", ("de", "en"), r"is not well-formed XML \(.+line 5.*\): export it again"),
    ],
)
def test_what_cannot_be_read_is_told(
    tmp_path: Path, body: str, languages: tuple[str, str] | None, sentence: str
) -> None:
    with pytest.raises(CorpusError, match=rf"memory\.tmx .*{sentence}"):
        read(tmp_path, body, languages)


def test_what_is_told_stands_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"is not well-formed XML \(.+\): export it again") as told:
        read(tmp_path, unit(en="\0", de="x"))
    assert "\n" not in str(told.value)


def with_entities(directory: Path, entities: str, text: str) -> str:
    path = directory / "entities.tmx"
    head = HEAD.replace('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', f'<!DOCTYPE tmx SYSTEM "tmx14.dtd" [{entities}]>')
    path.write_text(head + unit(en=text, de="x") + TAIL)
    [pair] = Corpus([path], languages=("de", "en"))
    return pair.target


def test_entities_of_the_memory_are_its_text(tmp_path: Path) -> None:
    assert with_entities(tmp_path, '<!ENTITY brand "Firefox">', "Restart &brand; now!") == "Restart Firefox now!"


DOCTYPES = [
    "",
    "<!DOCTYPE tmx>",
    '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
    '<!DOCTYPE tmx PUBLIC "-//LISA//DTD" "gone.dtd">',
]
DOCTYPES += ['<!DOCTYPE tmx [<!ENTITY brand "Firefox">]>', '<!-- <!DOCTYPE x> --><!DOCTYPE tmx SYSTEM "tmx14.dtd">']


@pytest.mark.parametrize("doctype", DOCTYPES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
def test_names_of_html_are_the_characters_they_stand_for(tmp_path: Path, doctype: str, encoding: str) -> None:
    head = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>{doctype}<tmx version="1.4"><body>'
    text = "Sch&ouml;n&nbsp;&euro; &LT;b&GT; &lt;&amp;&quot; <![CDATA[&ouml;]]> &#228; ä"
    path = tmp_path / "memory.tmx"
    path.write_bytes((head + unit(en=text, de="x") + TAIL).encode(encoding))
    [pair] = Corpus([path], languages=("de", "en"))
    assert pair.target == 'Schön\u00a0€ <b> <&" &ouml; ä ä'


def test_a_memorys_own_entities_go_before_those_of_html(tmp_path: Path) -> None:
    assert with_entities(tmp_path, '<!ENTITY ouml "oe">', "Sch&ouml;n &auml;") == "Schoen ä"


@pytest.mark.parametrize("head", [HEAD, HEAD.replace('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', "")])
def test_a_name_that_nothing_defines_is_told_before_its_unit_is_read(tmp_path: Path, head: str) -> None:
    path = tmp_path / "memory.tmx"
    path.write_text(head + unit(en="Sch&oe_ml;n", de="x") + TAIL)
    sentence = r"memory\.tmx uses a name that nothing defines \(Entity 'oe_ml' not defined at line 4\): write the text"
    with pytest.raises(CorpusError, match=sentence):
        list(Corpus([path], languages=("de", "en"), limit=1))


def test_a_segment_of_many_megabytes_is_told(tmp_path: Path) -> None:
    body = unit(en="door", de="Tür") + unit(en="x" * 20_000_000, de="x")
    with pytest.raises(
        CorpusError, match=r"a segment of more than 10 MB at line 5: split it into sentences, or delete"
    ):
        read(tmp_path, body)
    assert len(read(tmp_path, unit(en="x" * 9_000_000, de="x"))[0].target) == 9_000_000


def test_units_before_an_error_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "memory.tmx"
    path.write_text(HEAD + unit(en="door", de="Tür") + "<tu>")
    assert [pair.target for pair in Corpus([path], languages=("de", "en"), limit=1)] == ["door"]
    with pytest.raises(CorpusError, match="is not well-formed XML"):
        list(Corpus([path], languages=("de", "en")))


def test_nothing_outside_the_file_is_read_and_no_bomb_goes_off(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(CorpusError, match="Entity 'out' not defined"):
        with_entities(tmp_path, f'<!ENTITY out SYSTEM "file://{tmp_path}/secret">', "a &out; b")
    (tmp_path / "secret").write_text('<!ENTITY out "secret">')
    with pytest.raises(CorpusError, match=r"Entity '(out|file)' not defined"):
        with_entities(tmp_path, f'<!ENTITY % file SYSTEM "file://{tmp_path}/secret"> %file;', "a &out; b")
    (tmp_path / "tmx14.dtd").write_text('<!ENTITY out "secret">')
    with pytest.raises(CorpusError, match="Entity 'out' not defined"):
        with_entities(tmp_path, "", "a &out; b")
    bomb = '<!ENTITY a0 "lol">' + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    with pytest.raises(CorpusError, match="is not well-formed XML"):
        with_entities(tmp_path, bomb, "&a9;")
    with pytest.raises(CorpusError, match="is not well-formed XML"):
        with_entities(tmp_path, '<!ENTITY a "&b;"><!ENTITY b "&a;">', "&a;")
    with pytest.raises(CorpusError, match="is not well-formed XML"):
        read(tmp_path, unit(en="<hi>" * 1000 + "deep" + "</hi>" * 1000, de="tief"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the memory used")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak(units: int) -> int:
        """Of a process of its own, in kB: what lxml allocates Python does not see."""
        path = tmp_path / f"{units}.tmx"
        path.write_text(HEAD + unit(en="A sentence of middling length.", de="Ein Satz.") * units + TAIL)
        program = (
            "import re, sys; from knnmt.corpus import Corpus\n"
            "print(sum(1 for _ in Corpus(sys.argv[1:], languages=('de', 'en'))))\n"
            "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
        )
        result = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
        read, highest = map(int, result.stdout.split())
        assert read == units
        return highest

    assert peak(60_000) < peak(1000) + 10_000
