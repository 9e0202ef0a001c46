"""A package index of two small wheels with catalogues, made from the words that the tests' models know."""

import hashlib
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import polib
import pytest
from sentences import SENTENCES
from worlds import load

from knnmt.demo import text
from knnmt.demo.wheels import Wheel
from knnmt.model import Purpose, choose_engine

GUESS = "nur geraten"


def make_wheel(directory: Path, project: str, catalogues: dict[str, list[tuple[str, str]]]) -> Wheel:
    """A wheel that pip accepts, with a catalogue for each language: (message, translation)."""
    path = directory / f"{project}-1.0-py3-none-any.whl"
    info = f"{project}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for language, entries in catalogues.items():
            catalogue = polib.POFile()
            catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Language": language}
            for message, translation in entries:
                flags = ["fuzzy"] if translation == GUESS else []
                catalogue.append(polib.POEntry(msgid=message, msgstr=translation, flags=flags))
            archive.writestr(f"{project}/locale/{language}/LC_MESSAGES/django.po", str(catalogue))
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return Wheel(project, "1.0", hashlib.sha256(path.read_bytes()).hexdigest(), 1)


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """(English, German) out of the words of the tests' sentences; no two alike."""
    rng = random.Random(seed)
    german, english = ([word for pair in SENTENCES for word in pair[side].split()] for side in (0, 1))
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        target = " ".join(rng.sample(english, rng.randint(5, 8)))
        if not any(sign.isdigit() for sign in target):
            pairs[target] = " ".join(rng.sample(german, rng.randint(4, 7)))
    return list(pairs.items())


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory, family_directory: Callable[[str], Path]) -> Path:
    """A cache that holds the graphs of the model that most of these tests use, and nothing else."""
    cache = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNNMT_CACHE", str(cache))
        choose_engine(load("marian", family_directory("marian")), "onnx", "int8", Purpose.TARGETS)
    return cache


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: Path) -> tuple[Wheel, ...]:
    """Two wheels where pip looks for them, and a cache without them."""
    directory = tmp_path / "index"
    directory.mkdir()
    unfit = [("Save the %(name)s now please", "%(name)s speichern"), ("Name of the dog", "Name of the dog")]
    unfit += [("Two of them", ""), ("are not translated", ""), ("and one is fuzzy", GUESS)]
    # twins of good sentences: one word more, or within a long one
    twins = [(f"{english} again", f"{german} nochmals") for english, german in sentences(90, 1)[:40]]
    twins += [
        (" ".join(english for english, _ in sentences(90, 1)[i : i + 4]), f"Vier {i} davon zusammen")
        for i in range(40, 60, 4)
    ]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setenv("KNNMT_CACHE", str(shutil.copytree(exported, tmp_path / "knnmt-cache")))
    monkeypatch.setattr(text, "_FEWEST", 50)
    return (
        make_wheel(directory, "tickets", {"de": sentences(90, 1) + unfit + twins, "ja": [("Yes", "はい")]}),
        make_wheel(directory, "meetings", {"de_DE": sentences(60, 2) + sentences(90, 1)[:5]}),
    )
