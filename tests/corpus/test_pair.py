import pytest

from knnmt.corpus import Pair, hashing, normalise, pair_hash, text_hash


def test_hashes_are_those_of_the_texts() -> None:
    pair = Pair("Ein  Haus", "A house", "memory.tsv", 1)
    assert pair.hashes == (text_hash("Ein  Haus"), text_hash("A house"), pair_hash("Ein  Haus", "A house"))


def test_each_text_is_normalised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    normalised: list[str] = []

    def counted(text: str) -> str:
        normalised.append(text)
        return normalise(text)

    monkeypatch.setattr(hashing, "normalise", counted)
    pair = Pair("Ein Haus", "A house", "memory.tsv", 1)
    assert normalised == [], "a pair that nobody compares or stores costs nothing"
    assert pair.hashes.pair == pair.hashes.pair != pair.hashes.source
    assert normalised == ["Ein Haus", "A house"]


def test_hashes_are_no_part_of_a_pair() -> None:
    pair, other = Pair("a", "b", "c", 1), Pair("a", "b", "c", 1)
    assert pair.hashes
    assert pair == other
    assert repr(pair) == repr(other)
