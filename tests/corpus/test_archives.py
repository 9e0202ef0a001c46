import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import polib
import pytest

from knnmt.corpus import Corpus, archives, catalogue
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
    write(root, ".venv/site-packages/de/LC_MESSAGES/pip.po", "de", ("Not found", "Nicht gefunden"))
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


BROKEN = b'msgid "yes"\nmsgstr "ja\n'
LATIN = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "door"\nmsgstr "Tür"\n'.encode(
    "latin-1"
)


@pytest.mark.parametrize("content", [BROKEN, LATIN], ids=["syntax", "encoding"])
@pytest.mark.parametrize("name", ["b/po/de.po", "b/shop.po"])
def test_a_damaged_catalogue_among_good_ones_is_told(packed: Path, name: str, content: bytes) -> None:
    add(packed, name, content)
    with pytest.raises(CorpusError, match=rf"{name} is no catalogue that can be read \(.+\): check it"):
        read(packed, "de", "en")


def test_a_damaged_catalogue_of_a_language_nobody_asks_for_is_not(packed: Path) -> None:
    before = read(packed, "de", "en")
    add(packed, "b/po/fr.po", BROKEN)
    add(packed, "fr/LC_MESSAGES/b.po", BROKEN)
    assert read(packed, "de", "en") == before


def add(packed: Path, name: str, content: bytes) -> None:
    if packed.is_dir():
        (packed / name).parent.mkdir(parents=True)
        (packed / name).write_bytes(content)
    else:
        with zipfile.ZipFile(packed, "a") as archive:
            archive.writestr(name, content)


@pytest.mark.parametrize("name", ["de/LC_MESSAGES/ä.po", "po/ä.po"])
@pytest.mark.parametrize("damage", ["byte", "encrypted", "method", "name"])
def test_a_damaged_archive(damage: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, 'msgid "yes"\nmsgstr "ja"\n')
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


def test_a_directory_that_cannot_be_entered_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = project / "locale"
    enter = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return enter(path)

    monkeypatch.setattr(os, "scandir", scandir)
    for given in (project, closed):
        with pytest.raises(CorpusError, match=r"shop.* cannot be read \(.*Permission denied: '.*/locale'\): check it"):
            read(given, "de", "en")


def test_a_hidden_directory_that_is_given_is_read(project: Path) -> None:
    assert len(read(project.rename(project.with_name(".demo")), "de", "en")) == 4


def origins(root: Path, *languages: str) -> list[str]:
    return sorted({origin for _, _, origin in read(root, *languages)})


def full(name: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"Message {i}", f"{name} {i}") for i in range(10))


@pytest.mark.parametrize(
    ("names", "languages", "chosen"),
    [
        (["sr/LC_MESSAGES/a.po", "sr@latin/LC_MESSAGES/a.po"], ("sr", "en"), "sr/LC_MESSAGES/a.po"),
        (["sr_RS/LC_MESSAGES/a.po", "sr@latin/LC_MESSAGES/a.po"], ("sr", "en"), "sr_RS/LC_MESSAGES/a.po"),
        (["sr/LC_MESSAGES/a.mo", "sr@latin/LC_MESSAGES/a.po"], ("sr", "en"), "sr/LC_MESSAGES/a.mo"),
        (["po/sr.po", "po/sr@latin.po"], ("srp_Cyrl", "en"), "po/sr.po"),
        (["po/sr@latin.po", "po/de.po"], ("sr", "en"), "po/sr@latin.po"),
        (["ca@valencia/LC_MESSAGES/a.po", "ca/LC_MESSAGES/a.po"], ("ca", "en"), "ca/LC_MESSAGES/a.po"),
        (["de/LC_MESSAGES/a.po", "de_DE.UTF-8/LC_MESSAGES/a.po"], ("de", "en"), "de/LC_MESSAGES/a.po"),
        (["po/pl.UTF-8.po", "po/pl.cp1250.po", "po/pl.po"], ("pl", "en"), "po/pl.UTF-8.po"),
        (["messages.de.po", "messages.de_AT.po"], ("de", "en"), "messages.de.po"),
        (["messages.de.po", "messages.de_AT.po"], ("de_AT", "en"), "messages.de_AT.po"),
        (["po/nb.po", "po/nn.po"], ("no", "en"), "po/nb.po"),
    ],
)
def test_of_a_catalogues_variants_one_is_read(
    tmp_path: Path, names: list[str], languages: tuple[str, str], chosen: str
) -> None:
    for name in names:
        language = Path(name).parts[0] if "LC_MESSAGES" in name else Path(name).stem.removeprefix("messages.")
        write(tmp_path, name, language, *full(name))
    assert origins(tmp_path, *languages) == [chosen]


def test_catalogues_with_names_of_their_own_are_all_read(tmp_path: Path) -> None:
    names = ["de.admin.po", "de.shop.po", "v.1/de.po", "v.2/de.po"]
    for name in names:
        write(tmp_path, name, "de", *full(name))
    assert origins(tmp_path, "de", "en") == names


@pytest.mark.parametrize(
    ("counts", "languages", "chosen"),
    [
        ({"pt": 4, "pt_BR": 10, "pt_PT": 9}, ("pt", "en"), "pt_BR"),
        ({"pt": 5, "pt_BR": 10, "pt_PT": 9}, ("pt", "en"), "pt"),
        ({"pt": 4, "pt_BR": 10, "pt_PT": 9}, ("pt_PT", "en"), "pt_PT"),
        ({"de": 0, "de_AT": 0}, ("de", "en"), "de"),
        ({"zh_Hans": 1, "zh_Hant": 10}, ("zho_Hans", "en"), "zh_Hans"),
        ({"sr": 1, "sr@latin": 10}, ("sr", "en"), "sr"),
    ],
)
def test_a_nearly_empty_variant_does_not_hide_a_full_one(
    tmp_path: Path, counts: dict[str, int], languages: tuple[str, str], chosen: str
) -> None:
    for language, count in counts.items():
        entries = [*full(language)[:count], *((message, "") for message, _ in full(language)[count:])]
        write(tmp_path, f"{language}/LC_MESSAGES/a.po", language, *entries)
    write(tmp_path, "de/LC_MESSAGES/b.po", "de", ("yes", "ja"))
    found = [origin for origin in origins(tmp_path, *languages) if origin.endswith("a.po")]
    assert found == ([f"{chosen}/LC_MESSAGES/a.po"] if any(counts.values()) else [])


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the catalogues that are parsed, as often as they are."""
    names: list[str] = []
    parse = catalogue._parse

    def counted(path: Any) -> Any:
        names.append("/".join(Path(str(path)).parts[-3:]))
        return parse(path)

    monkeypatch.setattr(catalogue, "_parse", counted)
    return names


def test_each_catalogue_is_parsed_once_whatever_is_done_with_the_corpus(packed: Path, parsed: list[str]) -> None:
    corpus = Corpus([packed], languages=("de", "en"))
    summary = corpus.scan()
    assert len(parsed) == len(set(parsed)) > 4, "those that were not chosen too"
    assert "fr/LC_MESSAGES/django.po" not in parsed
    before = len(parsed)
    assert len(list(corpus)) == len(list(corpus)) == summary.pairs == 4
    assert corpus.scan() == summary
    assert len(parsed) == before


def test_catalogues_that_do_not_fit_in_memory_are_parsed_once_per_pass(
    packed: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Corpus([packed], languages=("de", "en"))
    summary, pairs = kept.scan(), list(kept)
    monkeypatch.setattr(archives, "KEPT_BYTES", 0)
    corpus = Corpus([packed], languages=("de", "en"))
    assert corpus.scan() == summary
    parsed.clear()
    assert list(corpus) == pairs
    assert len(parsed) == len(set(parsed)) == 3, "only those that were chosen"


def test_what_is_kept_is_bounded_over_all_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "three"):
        write(tmp_path / name, "po/de.po", "de", *full(name))
    size = catalogue.parse_catalogue(tmp_path / "one" / "po" / "de.po").bytes
    assert size > sum(len(text) for texts in full("one") for text in texts)
    monkeypatch.setattr(archives, "KEPT_BYTES", 3 * size - 1)
    found = archives.Catalogues(("de", "en"))
    members = [found.inside(tmp_path / name)[0] for name in ("one", "two", "three")]
    assert [member.kept is not None for member in members] == [True, True, False]
    assert [member.fit for member in members] == [10, 10, 10]


def test_variants_that_are_not_chosen_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for root in ("one", "two"):
        for language in ("de", "de_AT"):
            write(tmp_path / root, f"po/{language}.po", language, *full(language))
    size = catalogue.parse_catalogue(tmp_path / "one" / "po" / "de_AT.po").bytes
    monkeypatch.setattr(archives, "KEPT_BYTES", 3 * size)
    found = archives.Catalogues(("de", "en"))
    assert all(member.kept for root in ("one", "two") for member in found.inside(tmp_path / root))
