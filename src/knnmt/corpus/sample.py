"""A few pairs of a stream, every pair with the same chance."""

import random

from knnmt.corpus.pair import Pair

SIZE = 64
_SEED = 1  # the same corpus gives the same sample


class Sample:
    """Keeps up to `SIZE` of the pairs that it is given (reservoir sampling)."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self._seen = 0
        self._random = random.Random(_SEED)

    def add(self, pair: Pair) -> None:
        self._seen += 1
        if len(self.pairs) < SIZE:
            self.pairs.append(pair)
        elif (place := int(self._random.random() * self._seen)) < SIZE:
            self.pairs[place] = pair
