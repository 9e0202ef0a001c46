"""The sentences of a store or view, numbered across all segments: their texts, hashes and entries."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from knnmt.corpus import Pair
from knnmt.datastore.ids import first_id, split_ids
from knnmt.datastore.source_vectors import SourceVectors
from knnmt.datastore.store import Store
from knnmt.ranges import ranges

Numbers = npt.NDArray[np.int64]


class StoredSentences:
    """Finds sentences by number, 0 … len − 1, or by the ids of their entries.

    In a view only sentences with at least one live entry have a number.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        masks = [store.entries.sentence_mask.get(segment.name) for segment in store.segments]
        self._live = [None if mask is None else np.flatnonzero(mask) for mask in masks]  # rows of sentences that count
        counts = [
            segment.record.sentences if rows is None else len(rows)
            for segment, rows in zip(store.segments, self._live, strict=True)
        ]
        self.starts = np.cumsum([0, *counts])
        self._segment_numbers = np.array([segment.number for segment in store.segments], dtype=np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def hashes(self, which: Literal["source", "target", "pair"]) -> npt.NDArray[np.uint64]:
        """Hashes of the normalised texts, one per sentence."""
        columns = [segment.sentence_table[f"{which}_hash"].to_numpy() for segment in self.store.segments]
        return np.concatenate(
            [column if rows is None else column[rows] for column, rows in zip(columns, self._live, strict=True)]
        )

    def of(self, ids: Numbers) -> Numbers:
        """The number of each entry's sentence, for ids of any shape; −1 where there is none."""
        sentences = self.store.entries.sentence(ids)
        segment_numbers, rows = split_ids(sentences)
        segments = np.searchsorted(self._segment_numbers, segment_numbers)  # indices into store.segments
        numbers = np.where(sentences < 0, -1, self.starts[segments] + rows)
        for index, live in enumerate(self._live):
            if live is not None:
                here = (segments == index) & (sentences >= 0)
                place = np.searchsorted(live, rows[here])
                counts = np.append(live, -1)[place] == rows[here]
                numbers[here] = np.where(counts, self.starts[index] + place, -1)
        return numbers

    def ids(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Ids of all entries of the sentences, also those that a view leaves out, and how many each sentence has.

        Returns:
            [entries], [sentences]
        """
        segments, all_rows = self._places(numbers)
        firsts, lengths = np.empty_like(numbers), np.empty_like(numbers)
        for index, segment in enumerate(self.store.segments):
            here = np.flatnonzero(segments == index)
            rows = all_rows[here].astype(segment.sentence.dtype)  # else numpy copies the column
            first = np.searchsorted(segment.sentence, rows)
            lengths[here] = np.searchsorted(segment.sentence, rows, side="right") - first
            firsts[here] = first + first_id(segment.number)
        return ranges(firsts, lengths), lengths

    def pairs(self, numbers: Numbers) -> list[Pair]:
        """The sentence pairs themselves."""
        found = []
        for index, place in zip(*(each.tolist() for each in self._places(numbers)), strict=True):
            row = self.store.segments[index].sentence_table.slice(place, 1).to_pylist()[0]
            found.append(Pair(row["source"], row["target"], row["origin"], row["line"]))
        return found

    def source_vectors(self, numbers: Numbers) -> SourceVectors:
        """The source vectors of sentences."""
        segments, rows = self._places(numbers)
        order = np.argsort(segments, kind="stable")
        vectors = self.store.source_vectors
        parts = [vectors[index].take(rows[segments == index]) for index in range(len(vectors))]
        return SourceVectors.concatenate(parts).take(np.argsort(order))

    def _places(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """The index of each sentence's segment in `store.segments`, and its row in the segment's table."""
        segments = np.searchsorted(self.starts, numbers, side="right") - 1
        rows = numbers - self.starts[segments]
        for index, live in enumerate(self._live):
            if live is not None:
                rows[segments == index] = live[rows[segments == index]]
        return segments, rows
