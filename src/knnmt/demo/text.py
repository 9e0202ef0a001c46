"""The demo's corpus: catalogues made into memory, dev and test sentences that share nothing."""

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
HELD_OUT = 900  # sentences, of which the first third is for the test
_SHORTEST = 5  # words of a held-out sentence: BLEU means little for the label of a button
_FEWEST = 2000  # pairs, below which there is no memory to speak of

# What programs fill in or interpret: %(name)s, %s, {name}, <b>, &nbsp;, links, `code`
_CODE = re.compile(r"%\(\w+\)|%\d\$|%[sdif]\b|\{[^{}]*\}|</?\w[^<>]*>|&#?\w+;|\w://|\]\(|`")


def prepare(wheels: Sequence[Path], languages: tuple[str, str], directory: Path) -> dict[str, int]:
    """Write train.tsv, dev.tsv and test.tsv, the same for the same wheels and languages.

    Gives how many pairs each has, and how many were left out for what reason.
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
        new = directory / f"{name}.tsv.new"  # what has its name is whole: a demo that finds it does not make it again
        new.write_text(lines, encoding="utf-8")
        new.replace(directory / f"{name}.tsv")
    return {name: len(part) for name, part in parts.items()} | counts | left_out


def _read(wheels: Sequence[Path], languages: tuple[str, str]) -> tuple[list[Pair], dict[str, int]]:
    """Of every wheel that has the languages; origins are lines of catalogues, wherever the wheels are.

    Gives what the catalogues' own marks (fuzzy, …) leave out too, by reason.
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
    """Pairs a translator would learn from, and how many were left out by reason."""
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
    """Held out are sentences without a twin on either side anywhere, drawn by a hash of the English text: nearly the
    same ones for every language."""
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
