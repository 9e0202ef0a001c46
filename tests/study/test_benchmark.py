"""Benchmarks: what is found in a directory, and what is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_study import DEV, DOMAINS, GZIPPED, HALVED, PLAIN, TEST, pairs_of, scored_pairs, write_benchmark, write_pairs

from knnmt.errors import CorpusError, KnnmtError, StudyError
from knnmt.study import Benchmark, Split

LANGUAGES = ("de", "en")


def texts(split: Split) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in split.pairs]


def test_domains(benchmark: Path) -> None:
    found = Benchmark.open(benchmark, LANGUAGES)
    assert list(found.domains) == sorted(DOMAINS)
    for name, domain in found.domains.items():
        own = pairs_of(name)
        assert domain.name == name
        assert texts(domain.dev) == own[:DEV]
        assert texts(domain.test) == scored_pairs(name) == own[DEV : DEV + TEST]
        assert texts(domain.train) == own[DEV + TEST :], "lines without text are left out"
        assert len(domain.train) == len(own) - DEV - TEST + 1, "but they count as lines"
        assert domain.halved == (name == HALVED)
        assert (len(domain.test), domain.test_lines, domain.test_limit) == (TEST, TEST, None)
        characters = sum(len(target) for _, target in texts(domain.train))
        assert domain.train.tokens == pytest.approx(characters / 4, abs=1)


def test_whatever_else_is_there(tmp_path: Path) -> None:
    write_benchmark(tmp_path, [PLAIN])
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "scripts").mkdir()
    write_pairs(tmp_path / "half-made", "dev", pairs_of(PLAIN))
    (tmp_path / "french" / "train.fr").parent.mkdir()
    (tmp_path / "french" / "train.fr").write_text("bonjour\n")
    (tmp_path / PLAIN / "train.notes.de").write_text("not the train set")
    (tmp_path / PLAIN / "training.de").write_text("neither")
    assert list(Benchmark.open(tmp_path, LANGUAGES).domains) == [PLAIN]


@pytest.mark.parametrize("languages", [("deu_Latn", "eng_Latn"), ("de_DE", "en_XX")])
def test_codes_of_languages(benchmark: Path, languages: tuple[str, str]) -> None:
    """A model's code for a language may differ from the files'."""
    found = Benchmark.open(benchmark, languages)
    assert texts(found.domains[PLAIN].test) == scored_pairs(PLAIN)
    assert found.is_the_papers


def test_only_german_to_english_is_the_papers(tmp_path: Path) -> None:
    write_benchmark(tmp_path, [PLAIN])
    assert not Benchmark.open(tmp_path, ("en", "de")).is_the_papers


def test_wanted_domains_in_the_order_that_was_asked_for(benchmark: Path) -> None:
    assert list(Benchmark.open(benchmark, LANGUAGES, [GZIPPED, HALVED]).domains) == [GZIPPED, HALVED]


def test_halves(tmp_path: Path) -> None:
    """By lines, so that both files agree about them; of an odd number the first is the shorter."""
    own = pairs_of(PLAIN)
    write_pairs(tmp_path / "odd", "train", own[6:])
    write_pairs(tmp_path / "odd", "dev", [own[0], ("", ""), own[1], own[2], own[3]])
    domain = Benchmark.open(tmp_path, LANGUAGES).domains["odd"]
    assert texts(domain.dev) == own[:1]
    assert texts(domain.test) == own[1:4]
    assert (len(domain.dev), len(domain.test), domain.test_lines) == (2, 3, 3)
    assert domain.dev.identity != domain.test.identity
    limited = domain.limited(2)
    assert texts(limited.test) == own[1:3]
    assert (limited.test_limit, limited.test_lines) == (2, 3)


def test_limited(benchmark: Path) -> None:
    domain = Benchmark.open(benchmark, LANGUAGES).domains[PLAIN]
    assert texts(domain.limited(2).test) == scored_pairs(PLAIN)[:2]
    assert domain.limited(2).test_limit == 2
    assert (domain.limited(2).dev, domain.limited(2).train) == (domain.dev, domain.train)
    for count in (None, TEST, TEST + 1):
        assert domain.limited(count) == domain


def test_identity_is_of_the_content(tmp_path: Path) -> None:
    """Not of the place, the name of the domain or the compression."""

    def identities(path: Path, name: str) -> list[list[str | int]]:
        domain = Benchmark.open(path, LANGUAGES).domains[name]
        return [domain.train.identity, domain.dev.identity, domain.test.identity]

    write_benchmark(tmp_path / "one", [PLAIN])
    shutil.copytree(tmp_path / "one" / PLAIN, tmp_path / "two" / "quran")
    own = pairs_of(PLAIN)
    known = identities(tmp_path / "one", PLAIN)
    assert identities(tmp_path / "two", "quran") == known
    for path in (tmp_path / "two" / "quran").glob("test.*"):
        path.unlink()
    write_pairs(tmp_path / "two" / "quran", "test", own[DEV : DEV + TEST], gzipped=True)
    assert identities(tmp_path / "two", "quran") == known
    write_pairs(tmp_path / "one" / PLAIN, "dev", [*own[: DEV - 1], (own[DEV - 1][0], "Something else.")])
    changed = identities(tmp_path / "one", PLAIN)
    assert [one == other for one, other in zip(known, changed, strict=True)] == [True, False, True]


BAD: dict[str, tuple[Callable[[Path], object], type[KnnmtError], str]] = {
    "no directory": (shutil.rmtree, StudyError, "^There is no directory "),
    "a file": (
        lambda path: path.rename(path.with_name("moved")) and path.write_text("hello"),
        StudyError,
        "^There is no directory .*; give one with a folder for each domain",
    ),
    "no domains": (
        lambda path: shutil.rmtree(path / PLAIN),
        StudyError,
        r"holds no domain for this model; .* folders, each with train\.de, train\.en, dev\.de and dev\.en\.$",
    ),
    "the domain itself": (
        lambda path: [each.rename(path / each.name) for each in (path / PLAIN).iterdir()],
        StudyError,
        "holds no domain for this model",
    ),
    "no target": (
        lambda path: (path / PLAIN / "train.en").unlink(),
        StudyError,
        rf"{PLAIN} has no train\.en; add it, or leave the domain out\.$",
    ),
    "no dev": (lambda path: (path / PLAIN / "dev.de").unlink(), StudyError, r"has no dev\.de; add it"),
    "half a test set": (lambda path: (path / PLAIN / "test.en").unlink(), StudyError, r"has no test\.en; add it"),
    "different lengths": (
        lambda path: (path / PLAIN / "dev.en").write_text("One.\nTwo.\n"),
        CorpusError,
        r"dev\.de has 3 lines but .*dev\.en has 2",
    ),
    "a target without a test source": (
        lambda path: (path / PLAIN / "test.de").unlink(),
        StudyError,
        r"has no test\.de; add it",
    ),
    "no pair": (
        lambda path: [(path / PLAIN / f"train.{each}").write_text("\n") for each in LANGUAGES],
        CorpusError,
        "no sentence pair",
    ),
    "one line to be halved": (
        lambda path: _halve(path, [pairs_of(PLAIN)[0]]),
        StudyError,
        r"has no test file, and its dev file is too short to be halved; add a test file\.$",
    ),
    "half of it empty": (
        lambda path: _halve(path, [pairs_of(PLAIN)[0], ("", "")]),
        StudyError,
        "its dev file is too short to be halved",
    ),
}


def _halve(path: Path, dev: list[tuple[str, str]]) -> None:
    for each in (path / PLAIN).glob("test.*"):
        each.unlink()
    write_pairs(path / PLAIN, "dev", dev)


@pytest.mark.parametrize("name", BAD)
def test_bad_input(tmp_path: Path, name: str) -> None:
    spoil, error, expected = BAD[name]
    path = write_benchmark(tmp_path / "benchmark", [PLAIN])
    spoil(path)
    with pytest.raises(error, match=expected) as caught:
        Benchmark.open(path, LANGUAGES)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert ". " not in sentence


def test_unknown_domains(benchmark: Path) -> None:
    with pytest.raises(StudyError, match=r"holds no domain news, web; it has it, koran, law\.$"):
        Benchmark.open(benchmark, LANGUAGES, ["koran", "news", "web"])


def test_domains_that_are_not_wanted_are_not_read(tmp_path: Path) -> None:
    write_benchmark(tmp_path)
    (tmp_path / PLAIN / "dev.en").write_text("One.\n")
    assert list(Benchmark.open(tmp_path, LANGUAGES, [HALVED]).domains) == [HALVED]
