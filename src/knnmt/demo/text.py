"""The corpus of the demo: catalogues split into memory, dev and test sentences without near-duplicates."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from knnmt.corpus import Corpus, Pair, normalise
from knnmt.demo.twins import TwinFinder
from knnmt.errors import CorpusError, DemoError

PARTS = ("train", "dev", "test")
HELD_OUT = 900  # sentences; the first third is the test set
_SHORTEST = 5  # words of a held-out sentence: BLEU means little for the labels of buttons
_FEWEST = 2000  # pairs; with fewer the memory is too small

# What programs replace or interpret: %(name)s, %s, {name}, <b>, &nbsp;, links, `code`
_CODE = re.compile(r"%\(\w+\)|%\d\$|%[sdif]\b|\{[^{}]*\}|</?\w[^<>]*>|&#?\w+;|\w://|\]\(|`")


def prepare(wheels: Sequence[Path], languages: tuple[str, str], directory: Path) -> dict[str, int]:
    """Write train.tsv, dev.tsv and test.tsv; the same wheels and languages always give the same files.

    Returns the number of pairs in each file, and of those left out, by reason.
    """
    found, left_out = _read(wheels, languages)
    pairs, counts = _clean(found)
    if len(pairs) < _FEWEST:
        raise DemoError(
            f"The demo's catalogues have only {len(pairs)} good pairs of {languages[0]} and {languages[1]}; "
            "choose a model of a language they know better, such as German, French or Spanish."
        )
    parts = _split(pairs)
    directory.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        lines = "".join(f"{pair.source}\t{pair.target}\t{pair.origin}\n" for pair in part)
        new = directory / f"{name}.tsv.new"  # renamed when complete, so that the next run can reuse it
        new.write_text(lines, encoding="utf-8")
        new.replace(directory / f"{name}.tsv")
    return {name: len(part) for name, part in parts.items()} | counts | left_out


def _read(wheels: Sequence[Path], languages: tuple[str, str]) -> tuple[list[Pair], dict[str, int]]:
    """The pairs of every wheel that has the languages; an origin is a catalogue and a line, without the wheel's path.

    Also returns how many pairs the catalogues mark as unfit (fuzzy, …), by reason.
    """
    pairs: list[Pair] = []
    left_out: Counter[str] = Counter()
    for wheel in wheels:
        corpus = Corpus([wheel], languages=languages)
        try:
            left_out.update(corpus.scan().left_out)
        except CorpusError as error:
            if wheel == wheels[-1] and not pairs:
                raise DemoError(str(error)) from error
            continue
        pairs += [replace(pair, origin=f"{pair.origin.removeprefix(f'{wheel}/')}:{pair.line}") for pair in corpus]
    return pairs, dict(left_out)


def _clean(pairs: Iterable[Pair]) -> tuple[list[Pair], dict[str, int]]:
    """The pairs that are useful in a memory, and how many were left out, by reason."""
    kept: dict[int, Pair] = {}
    counts = Counter({"with placeholders or markup": 0, "the same in both languages": 0, "repeated": 0})
    for pair in pairs:
        if _CODE.search(pair.source) or _CODE.search(pair.target):
            counts["with placeholders or markup"] += 1
        elif pair.hashes.source == pair.hashes.target:
            counts["the same in both languages"] += 1
        elif pair.hashes.pair in kept:
            counts["repeated"] += 1
        else:
            kept[pair.hashes.pair] = pair
    return list(kept.values()), dict(counts)


def _split(pairs: list[Pair]) -> dict[str, list[Pair]]:
    """Hold out sentences that have no twin on either side.

    A hash of the English text selects them, so they are nearly the same for every source language.
    """
    order = sorted(range(len(pairs)), key=lambda i: hashlib.blake2b(normalise(pairs[i].target).encode()).digest())
    finders = [TwinFinder([pair.source for pair in pairs]), TwinFinder([pair.target for pair in pairs])]
    held_out: list[int] = []
    for i in order:
        if len(held_out) == min(HELD_OUT, len(pairs) // 8):
            break
        if len(pairs[i].target.split()) >= _SHORTEST and not any(finder.has_twin(i) for finder in finders):
            held_out.append(i)
    test = len(held_out) // 3
    parts = (sorted(set(order) - set(held_out)), held_out[test:], held_out[:test])
    return {name: [pairs[i] for i in part] for name, part in zip(PARTS, parts, strict=True)}
