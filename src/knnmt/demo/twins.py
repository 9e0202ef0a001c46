"""Find near-duplicates ("twins"): a test sentence with a twin in the memory tests nothing."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence

from knnmt.corpus import normalise

TWINS = 0.6  # two texts are twins if they share this part of all their words
CONTAINED = 0.9  # or if the other text has this part of a text's words


class TwinFinder:
    """Finds texts that have a near-duplicate among the others, without comparing all pairs of texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.words = [frozenset(re.findall(r"[^\W\d_]+", normalise(text))) for text in texts]
        self.holders: dict[str, list[int]] = defaultdict(list)
        for index, words in enumerate(self.words):
            for word in words:
                self.holders[word].append(index)

    def has_twin(self, index: int) -> bool:
        """Whether another text is nearly the same or contains nearly all of its words.

        Numbers and punctuation do not count; a text without words counts as having a twin.
        """
        words = self.words[index]
        if not words:
            return True
        # a twin must share at least one of these words: the remaining words are too few
        rarest = sorted(words, key=lambda word: (len(self.holders[word]), word))
        rarest = rarest[: len(words) - math.ceil(TWINS * len(words)) + 1]
        others = {other for word in rarest for other in self.holders[word]} - {index}
        return any(_are_twins(words, self.words[other]) for other in others)


def _are_twins(words: frozenset[str], others: frozenset[str]) -> bool:
    shared = len(words & others)
    return shared >= TWINS * len(words | others) or shared >= CONTAINED * len(words)
