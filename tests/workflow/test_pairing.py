"""A real model tells files in the wrong order, and files that do not belong together, from a parallel corpus."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from knnmt.datastore import Store
from knnmt.errors import CorpusError
from knnmt.model import TranslationModel
from knnmt.workflow import build_with_report, evaluate, fit

pytestmark = pytest.mark.usefixtures("pairing_is_checked")

ESPRESSO = Path(__file__).parents[2] / "examples" / "espresso"
Pairs = list[tuple[str, str]]
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def small() -> TranslationModel:
    return TranslationModel.load("de-en-small", device="cpu")


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    sides = [(ESPRESSO / f"memory.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en")]
    return list(zip(*sides, strict=True))[:40]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def tsv(pairs: Sequence[tuple[str, str]], name: str = "corpus") -> Path:
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
        return path

    return tsv


def swapped(pairs: Pairs) -> Pairs:
    return [(target, source) for source, target in pairs]


def shuffled(pairs: Pairs) -> Pairs:
    targets = [target for _, target in pairs]
    random.Random(1).shuffle(targets)
    return [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]


def same(pairs: Pairs) -> Pairs:
    return [(source, source) for source, _ in pairs]


def off_by_one(pairs: Pairs) -> Pairs:
    return [(source, target) for (source, _), (_, target) in pairwise(pairs)]


def off_by_minus_one(pairs: Pairs) -> Pairs:
    return [(source, target) for (_, target), (source, _) in pairwise(pairs)]


WRONG = [
    (swapped, "wrong order, the model translates from de into en: swap them"),
    (shuffled, "do not belong together"),
    (off_by_one, "do not belong together"),
    (off_by_minus_one, "do not belong together"),
    (same, "are the same text"),
]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_parallel_corpus_is_taken(
    tmp_path: Path, small: TranslationModel, pairs: Pairs, write: Write, precision: str
) -> None:
    report = build_with_report(tmp_path / "store", [write(pairs)], small, precision=precision)
    assert report.sentences == len(pairs)


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_a_wrong_one_is_refused(
    tmp_path: Path,
    small: TranslationModel,
    pairs: Pairs,
    write: Write,
    wrong: Callable[[Pairs], Pairs],
    words: str,
) -> None:
    path = write(wrong(pairs))
    with pytest.raises(CorpusError, match=rf"corpus\.tsv .*{words}.*--force"):
        build_with_report(tmp_path / "store", [path], small)
    assert not (tmp_path / "store").exists()
    assert build_with_report(tmp_path / "store", [path], small, force=True).sentences == len(wrong(pairs))


def test_five_lines_in_the_wrong_order(tmp_path: Path, small: TranslationModel, pairs: Pairs, write: Write) -> None:
    with pytest.raises(CorpusError, match="wrong order"):
        build_with_report(tmp_path / "store", [write(swapped(pairs[:5]))], small)
    assert build_with_report(tmp_path / "store", [write(pairs[:5])], small).sentences == 5


def test_a_corpus_that_is_in_the_store_already_is_not_judged(
    tmp_path: Path, small: TranslationModel, pairs: Pairs, write: Write
) -> None:
    """A forced corpus would be refused each time it is exported again."""
    odd = write(shuffled(pairs))
    build_with_report(tmp_path / "store", [odd], small, force=True)
    assert build_with_report(tmp_path / "store", [odd], small).known == len(pairs)


def test_a_wrong_file_among_right_ones(tmp_path: Path, small: TranslationModel, pairs: Pairs, write: Write) -> None:
    right, wrong = write(pairs[:20], "right"), write(swapped(pairs[20:]), "wrong")
    with pytest.raises(CorpusError, match=r"wrong\.tsv are in the wrong order"):
        build_with_report(tmp_path / "store", [right, wrong], small)


def test_dev_and_test_pairs_are_looked_at_too(
    tmp_path: Path, small: TranslationModel, pairs: Pairs, write: Write
) -> None:
    store = build_with_report(tmp_path / "store", [write(pairs[:30])], small).store
    wrong = write(swapped(pairs[30:]), "wrong")
    with pytest.raises(CorpusError, match="wrong order"):
        fit(store, [wrong], "vanilla", model=small)
    with pytest.raises(CorpusError, match="wrong order"):
        evaluate(store, [wrong], ["base"], model=small)
    assert not Store.open(store.path).combiners
