"""A benchmark: a directory of domains, each with train, dev and test files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from knnmt.corpus import Corpus, Pair
from knnmt.corpus.languages import language_of
from knnmt.corpus.lines import read_lines
from knnmt.errors import StudyError

TRAIN, DEV, TEST = "train", "dev", "test"
_CHARACTERS_PER_TOKEN = 4.0  # only for estimates before anything is tokenised


@dataclass(frozen=True)
class Split:
    """Some lines of two parallel files.

    Attributes:
        name: what it is for, and of which domain
        files: source and target
        languages: of source and target
        start, stop: the first line, counted from 0, and the line after the last
        digest: of the whole files; with start and stop it identifies the text, wherever the files are
        line_tokens: about how many target tokens a line has
    """

    name: str
    files: tuple[Path, Path]
    languages: tuple[str, str] | None
    start: int
    stop: int
    digest: str
    line_tokens: float

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def identity(self) -> list[str | int]:
        return [self.digest, self.start, self.stop]

    @property
    def tokens(self) -> int:
        """About how many target tokens it has."""
        return int(self.line_tokens * len(self))

    def first(self, count: int | None) -> "Split":
        """The first `count` lines; all of them for None."""
        stop = self.stop if count is None else min(self.stop, self.start + count)
        return replace(self, stop=stop)

    def halves(self) -> tuple["Split", "Split"]:
        """The first half and the second half."""
        middle = self.start + len(self) // 2
        return replace(self, stop=middle), replace(self, start=middle)

    @cached_property
    def pairs(self) -> list[Pair]:
        """The sentence pairs; lines without text are left out."""
        lines = Corpus(self.files, languages=self.languages, limit=self.stop)
        return [pair for pair in lines if self.start < pair.line]


@dataclass(frozen=True)
class Domain:
    """A domain of a benchmark.

    Attributes:
        train: what the memory is built from
        dev: what the methods are fitted on
        test: what they are scored on
        test_lines: how many lines it has in the benchmark; `test` may be fewer
        halved: whether there is no test file, so that dev and test are halves of the dev file
    """

    name: str
    train: Split
    dev: Split
    test: Split
    test_lines: int
    halved: bool

    @property
    def test_limit(self) -> int | None:
        """How many test sentences are used; None: all."""
        return None if len(self.test) == self.test_lines else len(self.test)

    def limited(self, count: int | None) -> "Domain":
        """With only the first `count` test sentences; all of them for None."""
        return replace(self, test=self.test.first(count))


@dataclass(frozen=True)
class Benchmark:
    """The domains of a directory `DOMAIN/{train,dev,test}.{SRC,TGT}`."""

    path: Path
    domains: dict[str, Domain]

    @property
    def is_the_papers(self) -> bool:
        """Whether its languages are those of the paper's benchmark, so that the paper's figures can stand beside."""
        return {tuple(map(language_of, each.test.languages or ())) for each in self.domains.values()} == {("de", "en")}

    @classmethod
    def open(cls, path: str | Path, languages: tuple[str, str], only: Sequence[str] = ()) -> "Benchmark":
        """Find the domains and check their files.

        Args:
            languages: the model's source and target language; the files' extensions are their codes
            only: the names of the wanted domains, in this order; empty: all, in alphabetical order

        Raises:
            StudyError: if there is no such directory, no domain in it, or a wanted domain is not there
            CorpusError: if files cannot be read, or differ in their number of lines
        """
        path = Path(path)
        if not path.is_dir():
            raise StudyError(f"There is no directory {path}; give one with a folder for each domain.")
        folders = {each.name: each for each in sorted(path.iterdir()) if _file(each, TRAIN, languages[0]) is not None}
        source, target = (language_of(language) for language in languages)
        if not folders:
            raise StudyError(
                f"{path} holds no domain for this model; "
                f"give a directory of folders, each with train.{source}, train.{target}, dev.{source} and dev.{target}."
            )
        if missing := [name for name in only if name not in folders]:
            raise StudyError(f"{path} holds no domain {', '.join(missing)}; it has {', '.join(folders)}.")
        names = list(only) or list(folders)
        return cls(path, {name: _domain(folders[name], languages) for name in names})


def _domain(folder: Path, languages: tuple[str, str]) -> Domain:
    train, dev = (_split(folder, name, languages) for name in (TRAIN, DEV))
    # a test set of which one file is missing is not silently replaced by half of dev
    if halved := all(_file(folder, TEST, language) is None for language in languages):
        dev, test = dev.halves()
        if not (len(dev) and dev.pairs and test.pairs):
            raise StudyError(f"{folder} has no test file, and its dev file is too short to be halved; add a test file.")
    else:
        test = _split(folder, TEST, languages)
    return Domain(folder.name, train, dev, test, len(test), halved)


def _split(folder: Path, name: str, languages: tuple[str, str]) -> Split:
    source, target = (_file(folder, name, language) for language in languages)
    for found, language in ((source, languages[0]), (target, languages[1])):
        if found is None:
            raise StudyError(f"{folder} has no {name}.{language_of(language)}; add it, or leave the domain out.")
    assert source is not None
    assert target is not None
    files = (source, target)
    summary = Corpus(files, languages=languages).scan()
    lines = summary.pairs + sum(summary.left_out.values())
    characters = sum(map(len, read_lines(target)))
    line_tokens = characters / _CHARACTERS_PER_TOKEN / lines
    return Split(f"{folder.name} {name}", files, languages, 0, lines, summary.digest, line_tokens)


def _file(folder: Path, name: str, language: str) -> Path | None:
    """The file of that name and language, plain or gzipped."""
    if not folder.is_dir():
        return None
    wanted = language_of(language)
    for each in sorted(folder.iterdir()):
        parts = each.name.removesuffix(".gz").split(".")
        if len(parts) == 2 and parts[0] == name and language_of(parts[1]) == wanted:
            return each
    return None
