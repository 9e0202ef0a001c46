"""A corpus: sentence pairs streamed from files of any format and size."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from knnmt.corpus.archives import Catalogues, holds_catalogues
from knnmt.corpus.characters import has_text
from knnmt.corpus.formats import PLAIN_TEXT, Format, format_of
from knnmt.corpus.names import check_names
from knnmt.corpus.pair import Pair, Part
from knnmt.corpus.sample import Sample
from knnmt.corpus.unreadable import refuse_extension
from knnmt.errors import CorpusError


@dataclass(frozen=True, slots=True)
class CorpusSummary:
    """What a scan found.

    Attributes:
        digest: of formats, texts, line numbers and the origins that the corpus or the caller gives; it does not depend
            on the paths of the files or on their compression
        pairs: how many pairs can be used
        left_out: how many cannot, by reason (empty, fuzzy, …)
        samples: some pairs of each given file (or two files), by name
    """

    digest: str
    pairs: int
    left_out: dict[str, int]
    samples: dict[str, list[Pair]] = field(default_factory=dict, compare=False)


class Corpus:
    """Sentence pairs of one or more files, read again each time it is iterated over.

    Args:
        paths: Plain text files in pairs, source first; `.tsv`, `.jsonl`, `.tmx`, `.po`, `.mo` singly; each may
            be a `.gz`. A directory, wheel or zip archive means the message catalogues in it.
        languages: Of source and target, for formats that label texts by language or have no direction.
        origin: Used instead of the file's name for pairs without an origin of their own.
        limit: Read at most this many lines, including those left out.
        force: Accept plain text files whose names contradict `languages` or their order.

    Example:
        corpus = Corpus(["train.de", "train.en", "memory.tsv"])
        print(corpus.scan().pairs)
        for pair in corpus:
            print(pair.source, pair.target, pair.origin, pair.line)
    """

    def __init__(
        self,
        paths: Sequence[str | Path] | str | Path,
        *,
        languages: tuple[str, str] | None = None,
        origin: str | None = None,
        limit: int | None = None,
        force: bool = False,
    ) -> None:
        if limit is not None and limit < 1:
            raise CorpusError(f"A limit of {limit} lines leaves nothing of the corpus: give 1 or more.")
        # a single file may be given without a list
        self.paths = [os.fspath(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
        self.languages = languages
        self.origin = origin
        self.limit = limit
        self.force = force
        self._catalogues = Catalogues(languages)

    @property
    def names(self) -> list[str]:
        """The names of the files, in a form that can be stored and printed."""
        return [_printable(path) for path in self.paths]

    def scan(self) -> CorpusSummary:
        """Read, check and count everything once; raises any CorpusError that iterating would raise."""
        digest = blake2b(digest_size=16)
        pairs = 0
        left_out: Counter[str] = Counter()
        samples: defaultdict[str, Sample] = defaultdict(Sample)
        for format, part, pair in self._lines(name_files=False):
            texts = (pair.source, pair.target, pair.origin)
            lengths = " ".join(str(len(text)) for text in texts)  # so that different corpora never hash the same bytes
            digest.update(f"{format.name} {pair.line} {lengths}{pair.unfit}\n{''.join(texts)}".encode())
            if reason := _unfit(pair):
                left_out[reason] += 1
            else:
                pairs += 1
                samples[part.given].add(pair)
        if not pairs:
            raise CorpusError(
                f"There is no sentence pair in {', '.join(self.paths)}: give lines with text on both sides."
            )
        sampled = {name: sample.pairs for name, sample in samples.items()}
        return CorpusSummary(digest.hexdigest(), pairs, dict(left_out), sampled)

    def __iter__(self) -> Iterator[Pair]:
        return (pair for _, _, pair in self._lines(name_files=True) if not _unfit(pair))

    def _lines(self, name_files: bool) -> Iterator[tuple[Format, Part, Pair]]:
        """Every line with its format; with `name_files`, pairs without an origin get the name of their file."""
        parts = self._parts(name_files)
        return islice(((format, part, pair) for format, part in parts for pair in format.read(part)), self.limit)

    def _parts(self, name_files: bool) -> list[tuple[Format, Part]]:
        if not self.paths:
            raise CorpusError("No corpus was given: name its files.")
        parts: list[tuple[Format, Part]] = []
        plain: list[tuple[str, str]] = []
        names = iter(self.paths)
        for name in names:
            if holds_catalogues(Path(name)):
                _checked(name)
                parts += self._members(name, name_files)
                continue
            files = [_checked(name)]
            format = format_of(files[0])
            if format is PLAIN_TEXT:
                partner = next(names, None)
                if partner is None or holds_catalogues(Path(partner)) or format_of(Path(partner)) is not PLAIN_TEXT:
                    raise CorpusError(_without_partner(name))
                files.append(_checked(partner))
                plain.append((name, partner))
            origin = self.origin or (_printable(name) if name_files else "")
            parts.append((format, Part(tuple(files), origin, self.languages, " ".join(map(str, files)))))
        _check_each_is_given_once(self.paths)
        if not self.force:
            check_names(plain, self.languages)
        return parts

    def _members(self, name: str, name_files: bool) -> Iterator[tuple[Format, Part]]:
        """Each catalogue in a directory or archive; the origin of its pairs includes its name."""
        for member in self._catalogues.inside(Path(name)):
            origin = self.origin or (_printable(f"{name}/{member.name}") if name_files else "")
            yield Format("catalogue", member.read), Part((member.file,), origin, self.languages, name)


def _checked(name: str) -> Path:
    path = Path(name)
    if not os.path.exists(path):
        raise CorpusError(f"{name} does not exist: check the name of the corpus file.")
    if not (path.is_file() or path.is_dir()):
        raise CorpusError(f"{name} is not a regular file: save it as one first, for it is read more than once.")
    refuse_extension(path)
    return path


def _check_each_is_given_once(names: Sequence[str]) -> None:
    seen: dict[tuple[int, int], str] = {}
    for name in names:
        status = os.stat(name)
        file = status.st_dev, status.st_ino  # what os.path.samefile compares
        if file in seen:
            how = "is given twice" if seen[file] == name else f"is the same file as {seen[file]}"
            raise CorpusError(f"{name} {how}: name each file once.")
        seen[file] = name


def _without_partner(name: str) -> str:
    if name.lower().removesuffix(".gz").endswith(".pot"):
        return f"{name} is a template, which holds no translations: give the .po that was made from it."
    return (
        f"{name} is plain text without a partner: "
        "give the source file and after it the target file, as in train.de train.en."
    )


def _printable(name: str) -> str:
    """The name in valid UTF-8: file names may be anything, but stores hold UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")


def _unfit(pair: Pair) -> str:
    return pair.unfit or ("" if has_text(pair.source) and has_text(pair.target) else "empty")
