"""The sentences of a store, numbered through all its segments: their texts, hashes and pairs."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from knnmt.corpus import Pair
from knnmt.datastore.ids import first_id, split_ids
from knnmt.datastore.store import Store
from knnmt.ranges import ranges

Numbers = npt.NDArray[np.int64]


class StoredSentences:
    """Looks sentences up by number, 0 … store.sentences − 1, and pairs' sentences by the pairs' ids."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.starts = np.cumsum([0, *(segment.record.sentences for segment in store.segments)])
        self._segment_numbers = np.array([segment.number for segment in store.segments], dtype=np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def hashes(self, which: Literal["source", "target", "pair"]) -> npt.NDArray[np.uint64]:
        """Of the normalised texts, one a sentence."""
        columns = [segment.sentence_table[f"{which}_hash"].to_numpy() for segment in self.store.segments]
        return np.concatenate(columns)

    def of(self, ids: Numbers) -> Numbers:
        """Each entry's sentence, for ids of any shape; −1 where the id is −1."""
        sentences = self.store.entries.sentence(ids)
        segment_numbers, rows = split_ids(sentences)
        segments = np.searchsorted(self._segment_numbers, segment_numbers)  # where they are in the list of segments
        return np.where(sentences < 0, -1, self.starts[segments] + rows)

    def ids(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """The ids of the sentences' pairs, sentence after sentence, and how many each has  # [pairs], [sentences]"""
        places = np.searchsorted(self.starts, numbers, side="right") - 1
        firsts, lengths = np.empty_like(numbers), np.empty_like(numbers)
        for place, segment in enumerate(self.store.segments):
            here = np.flatnonzero(places == place)
            rows = (numbers[here] - self.starts[place]).astype(segment.sentence.dtype)  # else all of it is copied
            first = np.searchsorted(segment.sentence, rows)
            lengths[here] = np.searchsorted(segment.sentence, rows, side="right") - first
            firsts[here] = first + first_id(segment.number)
        return ranges(firsts, lengths), lengths

    def pairs(self, numbers: Numbers) -> list[Pair]:
        """The sentence pairs themselves."""
        places = np.searchsorted(self.starts, numbers, side="right") - 1
        found = []
        for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
            row = self.store.segments[place].sentence_table.slice(number - int(self.starts[place]), 1).to_pylist()[0]
            found.append(Pair(row["source"], row["target"], row["origin"], row["line"]))
        return found
