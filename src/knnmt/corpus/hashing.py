"""When two texts count as the same: hashes that ignore case, width, composition and white space."""

import unicodedata
from hashlib import blake2b
from typing import NamedTuple


def normalise(text: str) -> str:
    """NFKC, casefold, single spaces; a normalised text does not change."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # again, because casefold decomposes some letters: İ becomes i and a dot, perhaps in the wrong order
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def text_hash(text: str) -> int:
    """64 bits, unsigned, of the normalised text."""
    return _hash(normalise(text))


def pair_hash(source: str, target: str) -> int:
    """64 bits, unsigned, of the normalised pair."""
    return pair_hashes(source, target).pair


class PairHashes(NamedTuple):
    """The hashes of a sentence, of its translation, and of the pair."""

    source: int
    target: int
    pair: int


def pair_hashes(source: str, target: str) -> PairHashes:
    """The three hashes of a pair, with each text normalised only once."""
    source, target = normalise(source), normalise(target)
    # a normalised text has no line end
    return PairHashes(_hash(source), _hash(target), _hash(f"{source}\n{target}"))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
