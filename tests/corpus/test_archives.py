import shutil
import zipfile
from pathlib import Path

import polib
import pytest

from knnmt.corpus import Corpus
from knnmt.errors import CorpusError


def write(root: Path, name: str, language: str, *entries: tuple[str, str], source: str = "") -> None:
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Language": language}
    catalogue.metadata |= {"X-Source-Language": source} if source else {}
    for message, translation in entries:
        catalogue.append(polib.POEntry(msgid=message, msgstr=translation))
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    catalogue.save(str(path)) if path.suffix == ".po" else catalogue.save_as_mofile(str(path))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A program's catalogues in several languages and layouts."""
    root = tmp_path / "shop"
    write(root, "locale/de/LC_MESSAGES/django.po", "de", ("Cancel", "Stornieren"), ("Pay", "Bezahlen"))
    write(root, "locale/de/LC_MESSAGES/django.mo", "de", ("Cancel", "Stornieren"))
    write(root, "locale/de_Informal/LC_MESSAGES/django.po", "de_Informal", ("Pay", "Zahl"))
    write(root, "locale/fr/LC_MESSAGES/django.po", "fr", ("Pay", "Payer"))
    write(root, "locale/en_GB/LC_MESSAGES/django.po", "en_GB", ("Color", "Colour"))
    write(root, "locale/de_AT/LC_MESSAGES/js.mo", "", ("January", "Jänner"))
    write(root, "locale/de_DE/LC_MESSAGES/js.mo", "", ("January", "Januar"))
    write(root, "po/de.po", "", ("Help", "Hilfe"))
    write(root, "po/fr.po", "fr", ("Help", "Aide"))
    write(root, "swedish/de.po", "de", ("Hjälp", "Hilfe"), source="sv")
    (root / "readme.txt").write_text("no catalogue")
    write(root, "po/de_AT.po", "de", ("Help", "Beistand"))
    for name in ("__MACOSX/po/._de.po", "po/.de.po", "pump/Pump.mo", "po/.po"):  # what only looks like a catalogue
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"\xff\xfe model Pump")
    return root


@pytest.fixture(params=["directory", "wheel", "zip"])
def packed(request: pytest.FixtureRequest, project: Path) -> Path:
    if request.param == "directory":
        return project
    path = Path(shutil.make_archive(str(project), "zip", project))
    return path.rename(path.with_suffix(".whl")) if request.param == "wheel" else path


def read(path: Path, *languages: str) -> list[tuple[str, str, str]]:
    source, target = languages
    corpus = Corpus([path], languages=(source, target))
    return [(pair.source, pair.target, pair.origin.removeprefix(f"{path}/")) for pair in corpus]


def test_catalogues_between_the_models_languages_are_read(packed: Path) -> None:
    assert read(packed, "deu_Latn", "eng_Latn") == [
        ("Stornieren", "Cancel", "locale/de/LC_MESSAGES/django.po"),
        ("Bezahlen", "Pay", "locale/de/LC_MESSAGES/django.po"),
        ("Januar", "January", "locale/de_DE/LC_MESSAGES/js.mo"),
        ("Hilfe", "Help", "po/de.po"),
    ]
    assert read(packed, "en", "fr") == [
        ("Pay", "Payer", "locale/fr/LC_MESSAGES/django.po"),
        ("Help", "Aide", "po/fr.po"),
    ]
    assert read(packed, "de", "sv") == [("Hilfe", "Hjälp", "swedish/de.po")]


def test_the_digest_is_that_of_the_texts(project: Path, tmp_path: Path) -> None:
    whole = Corpus([project], languages=("de", "en")).scan()
    archive = shutil.make_archive(str(tmp_path / "other"), "zip", project)
    assert Corpus([archive], languages=("de", "en")).scan() == whole
    assert (whole.pairs, whole.left_out) == (4, {})
    assert {pair.origin for pair in Corpus([archive], languages=("de", "en"), origin="mine")} == {"mine"}


def test_what_does_not_fit_is_told(packed: Path) -> None:
    with pytest.raises(
        CorpusError, match=r"no catalogue between es and en \(it has de, de_AT, .*, fr, unknown\): give one of"
    ):
        read(packed, "es", "en")
    with pytest.raises(CorpusError, match="does not say which it translates: say it with --source-lang"):
        Corpus([packed]).scan()


def test_a_damaged_catalogue_in_its_place_is_told(project: Path) -> None:
    (project / "locale/de/LC_MESSAGES/django.po").write_bytes(b"\xff\xfe")
    with pytest.raises(CorpusError, match=r"django\.po is no catalogue that can be read"):
        read(project, "de", "en")


@pytest.mark.parametrize("damage", ["byte", "encrypted", "method", "name"])
def test_a_damaged_archive(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("de/LC_MESSAGES/ä.po", 'msgid "yes"\nmsgstr "ja"\n')
    content = bytearray(path.read_bytes())
    local, central = content.index(b"PK\3\4"), content.index(b"PK\1\2")
    if damage == "byte":
        content[content.index(b"ja")] = 0
    elif damage == "encrypted":
        content[local + 6] |= 1
        content[central + 8] |= 1
    elif damage == "method":
        content[local + 8] = content[central + 10] = 9
    else:
        content[content.index("ä".encode(), central)] = 0xFF
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"shop\.zip.* cannot be (unpacked|read) \(.+\): "):
        read(path, "de", "en")


def test_an_archive_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "shop.whl"
    path.write_bytes(b"no archive")
    with pytest.raises(CorpusError, match=r"shop\.whl cannot be read \(File is not a zip file\)"):
        read(path, "de", "en")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(CorpusError, match=r"shop\.whl holds no message catalogue \(\.po, \.mo\)"):
        read(path, "de", "en")
