import os
from pathlib import Path

import pytest

from knnmt.corpus import Corpus
from knnmt.corpus.names import check_names
from knnmt.errors import CorpusError

GERMAN_ENGLISH = ("de", "en")
Languages = tuple[str, str] | None


def check(files: str, languages: Languages) -> None:
    names = files.split()
    check_names(list(zip(names[::2], names[1::2], strict=True)), languages)


@pytest.mark.parametrize("languages", [GERMAN_ENGLISH, ("deu_Latn", "eng_Latn"), ("de_DE", "en_XX"), None])
@pytest.mark.parametrize(
    "files",
    [
        "s.de s.en",
        "s.de.gz s.en",
        "s.DE s.EN",
        "s.deu s.eng",
        "s.deu_Latn s.eng_Latn.gz",
        "s.de_DE s.en_US",
        "train.de.txt train.en.txt",
        "train.de train.en.txt.gz",
        "train.de.tok train.en.tok",
        "de.txt en.txt",
        "OPUS.de-en.de OPUS.de-en.en",
        "a.de a.en b.de b.en",
        "train.src train.trg",
        "train.src train.tgt",
        "train.de.src train.de.tgt",
        "train.de-en.src train.de-en.trg",
        "train.en-de.src train.en-de.trg",
        "source.txt target.txt",
        "corpus.tok other.tok",
        "corpus.tok corpus.ref",
        "x.1 x.2",
        "x.out y.out",
        "x y",
        "s.de x.out",
        "x.out s.en",
        "src.aa tgt.aa src.ab tgt.ab",
        "train.src.aa train.tgt.aa train.src.ab train.tgt.ab",
        "big.de.aa big.en.aa big.de.ab big.en.ab",
        "de.aa en.aa de.ab en.ab",
        "is.txt was.txt",
        "source.1 target.1 source.2 target.2",
        "a.src a.trg b.src b.trg",
        "in/train.bpe out/train.bpe",
        "train.pt-br train.zh-cn",
    ],
)
def test_the_right_order_and_ordinary_names(files: str, languages: Languages) -> None:
    check(files, languages)


@pytest.mark.parametrize(
    ("files", "languages"),
    [
        ("s.fr s.en", ("ROMANCE", "en")),
        ("s.fr s.en", ("mul", "en")),
        ("s.fr s.en", ("roa", "eng")),
        ("s.en s.no", ("eng_Latn", "nob_Latn")),
        ("s.zh s.en", ("zho_Hans", "eng_Latn")),
        ("s.ar s.en", ("arb_Arab", "eng_Latn")),
        ("s.cz s.jp", ("cs", "ja")),
        ("s.se s.en", ("sv", "en")),
        ("s.si s.sl", ("si", "sl")),
        ("s.en t.en", ("en_GB", "en_US")),
        ("s.de t.de", ("de", "de")),
        ("train.src train.ref", ("sc", "en")),
    ],
)
def test_what_models_call_their_languages(files: str, languages: Languages) -> None:
    check(files, languages)


@pytest.mark.parametrize(
    ("files", "languages", "sentence"),
    [
        (
            "s.en s.de",
            GERMAN_ENGLISH,
            r"^s\.en is en by its name, but the model translates from de: give the source file first, as in "
            r"`s\.de s\.en`, or use --force if it is right as it is\.$",
        ),
        ("s.en.gz s.de.gz", ("deu_Latn", "eng_Latn"), r"s\.en\.gz is en .* translates from deu_Latn: give the source"),
        ("s.eng s.deu", GERMAN_ENGLISH, r"s\.eng is en by its name"),
        ("s.eng_Latn s.deu_Latn", GERMAN_ENGLISH, r"s\.eng_Latn is en by its name"),
        ("train.en.txt train.de.txt", GERMAN_ENGLISH, r"train\.en\.txt is en by its name"),
        ("a.en.tok b.de.tok", GERMAN_ENGLISH, r"a\.en\.tok is en by its name"),
        ("en.txt de.txt", GERMAN_ENGLISH, r"en\.txt is en by its name"),
        ("OPUS.de-en.en OPUS.de-en.de", GERMAN_ENGLISH, r"OPUS\.de-en\.en is en by its name"),
        ("s.en x.out", GERMAN_ENGLISH, r"s\.en is en .* give the source file first, as in `x\.out s\.en`"),
        ("x.out s.de", GERMAN_ENGLISH, r"s\.de is de .* translates into en: give the source file first"),
        ("s.fr s.en", GERMAN_ENGLISH, r"s\.fr is fr .* translates from de: give one in de, or use --force"),
        ("s.de s.fr", GERMAN_ENGLISH, r"s\.fr is fr .* translates into en: give one in en, or use --force"),
        ("s.en s.fr", GERMAN_ENGLISH, r"s\.en is en .* translates from de: give one in de"),
        ("s.en s.fr", ("roa", "en"), r"s\.en is en .* translates from roa: give one in roa"),
        ("s.de s.se", ("de", "en"), r"s\.se is se by its name"),
        ("a.de a.en s.en s.de", GERMAN_ENGLISH, r"^s\.en is en"),
        ("a.de b.de", GERMAN_ENGLISH, r"a\.de and b\.de are both de by their names: give the source file and after"),
        ("a.fr b.fr", ("mul", "en"), r"a\.fr and b\.fr are both fr"),
        ("a.de b.de", None, r"a\.de and b\.de are both de"),
        ("in/a.de out/a.de", None, r"in/a\.de and out/a\.de are both de"),
        ("a.de.tok b.de.tok", None, r"are both de"),
    ],
)
def test_other_languages_are_refused(files: str, languages: Languages, sentence: str) -> None:
    with pytest.raises(CorpusError, match=sentence):
        check(files, languages)


@pytest.mark.parametrize(
    ("files", "languages", "right"),
    [
        ("a.de b.de a.en b.en", GERMAN_ENGLISH, "a.de a.en b.de b.en"),
        ("a.en b.en a.de b.de", GERMAN_ENGLISH, "a.de a.en b.de b.en"),
        ("a.de b.de a.en b.en", None, "a.de a.en b.de b.en"),
        ("a.de b.de c.de a.en b.en c.en", GERMAN_ENGLISH, "a.de a.en b.de b.en …"),
        ("a.de.gz b.de.gz a.en.gz b.en.gz", GERMAN_ENGLISH, "a.de.gz a.en.gz b.de.gz b.en.gz"),
        ("a.src b.src a.trg b.trg", None, "a.src a.trg b.src b.trg"),
        ("a.de.tok b.de.tok a.en.tok b.en.tok", GERMAN_ENGLISH, "a.de.tok a.en.tok b.de.tok b.en.tok"),
    ],
)
def test_the_order_of_a_shell_is_told(files: str, languages: Languages, right: str) -> None:
    with pytest.raises(CorpusError) as told:
        check(files, languages)
    first, second, *_ = files.split()
    assert str(told.value).startswith(f"{first} and {second} are both ")
    assert f"as in `{right}`, or use --force if it is right as it is." in str(told.value)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"s.de": "ja\n", "s.en": "yes\n", "m.tsv": "nein\tno\n"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "sub").mkdir()
    os.symlink("../s.de", "sub/link")
    return tmp_path


def test_force_takes_the_files_as_they_are(here: Path) -> None:
    corpus = Corpus(["s.en", "s.de"], languages=GERMAN_ENGLISH)
    for read in (corpus.scan, lambda: list(corpus)):
        with pytest.raises(CorpusError, match=r"s\.en is en by its name"):
            read()
    [pair] = Corpus(["s.en", "s.de"], languages=GERMAN_ENGLISH, force=True)
    assert (pair.source, pair.target) == ("yes", "ja")
    assert Corpus(["s.en", "s.de"], languages=("en", "de")).scan().pairs == 1


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["s.de", "s.de"], r"^s\.de is given twice: name each file once\.$"),
        (["s.de", "./s.de"], r"^\./s\.de is the same file as s\.de: name each file once\.$"),
        (["s.de", "sub/link"], r"^sub/link is the same file as s\.de"),
        (["s.de", "s.en", "m.tsv", "sub/../m.tsv"], r"sub/\.\./m\.tsv is the same file as m\.tsv"),
        (["s.de", "s.en", "s.de", "s.en"], r"s\.de is given twice"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_a_file_is_given_once(here: Path, names: list[str], sentence: str, force: bool) -> None:
    with pytest.raises(CorpusError, match=sentence):
        Corpus(names, force=force).scan()
