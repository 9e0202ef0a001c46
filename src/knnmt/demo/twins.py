"""Texts that are almost the same: a test sentence whose twin is in the memory tests nothing."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence

from knnmt.corpus import normalise

TWINS = 0.6  # share of all their words that two texts have in common


class TwinFinder:
    """Finds out which of some texts have a near-duplicate among the others, without comparing all with all."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.words = [frozenset(re.findall(r"[^\W\d_]+", normalise(text))) for text in texts]
        self.holders: dict[str, list[int]] = defaultdict(list)
        for index, words in enumerate(self.words):
            for word in words:
                self.holders[word].append(index)

    def has_twin(self, index: int) -> bool:
        """Whether another text shares its words; numbers and signs do not count, and a text without words has one."""
        words = self.words[index]
        if not words:
            return True
        # two texts that share enough must share one of these: the rest is too few
        rarest = sorted(words, key=lambda word: (len(self.holders[word]), word))
        rarest = rarest[: len(words) - math.ceil(TWINS * len(words)) + 1]
        others = {other for word in rarest for other in self.holders[word]} - {index}
        return any(len(words & self.words[other]) >= TWINS * len(words | self.words[other]) for other in others)
