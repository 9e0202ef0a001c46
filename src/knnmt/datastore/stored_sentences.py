"""The sentences of a store, numbered across all segments: their texts, hashes and entries."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from knnmt.corpus import Pair
from knnmt.datastore.ids import first_id, split_ids
from knnmt.datastore.store import Store
from knnmt.ranges import ranges

Numbers = npt.NDArray[np.int64]


class StoredSentences:
    """Finds sentences by number, 0 … len − 1, or by the ids of their entries."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.starts = np.cumsum([0, *(segment.record.sentences for segment in store.segments)])
        self._segment_numbers = np.array([segment.number for segment in store.segments], dtype=np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def hashes(self, which: Literal["source", "target", "pair"]) -> npt.NDArray[np.uint64]:
        """Hashes of the normalised texts, one per sentence."""
        columns = [segment.sentence_table[f"{which}_hash"].to_numpy() for segment in self.store.segments]
        return np.concatenate(columns)

    def of(self, ids: Numbers) -> Numbers:
        """The number of each entry's sentence, for ids of any shape; −1 where the id is −1."""
        sentences = self.store.entries.sentence(ids)
        segment_numbers, rows = split_ids(sentences)
        segments = np.searchsorted(self._segment_numbers, segment_numbers)  # indices into store.segments
        return np.where(sentences < 0, -1, self.starts[segments] + rows)

    def ids(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Ids of all entries of the sentences, and the number of entries per sentence.  # [entries], [sentences]"""
        segments = self._segments_of(numbers)
        firsts, lengths = np.empty_like(numbers), np.empty_like(numbers)
        for index, segment in enumerate(self.store.segments):
            here = np.flatnonzero(segments == index)
            rows = (numbers[here] - self.starts[index]).astype(segment.sentence.dtype)  # else numpy copies the column
            first = np.searchsorted(segment.sentence, rows)
            lengths[here] = np.searchsorted(segment.sentence, rows, side="right") - first
            firsts[here] = first + first_id(segment.number)
        return ranges(firsts, lengths), lengths

    def pairs(self, numbers: Numbers) -> list[Pair]:
        """The sentence pairs themselves."""
        found = []
        for number, index in zip(numbers.tolist(), self._segments_of(numbers).tolist(), strict=True):
            row = self.store.segments[index].sentence_table.slice(number - int(self.starts[index]), 1).to_pylist()[0]
            found.append(Pair(row["source"], row["target"], row["origin"], row["line"]))
        return found

    def _segments_of(self, numbers: Numbers) -> Numbers:
        """The index of each sentence's segment in `store.segments`."""
        return np.searchsorted(self.starts, numbers, side="right") - 1
