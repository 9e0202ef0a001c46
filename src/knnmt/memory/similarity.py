"""How similar stored sources are to the present ones: the cosine of their pieces, weighted by tf-idf."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knnmt.datastore import Ids, SourceVectors, Store
from knnmt.datastore.ids import split_ids
from knnmt.ranges import ranges


@dataclass(frozen=True)
class Query:
    """Some sources, reduced to the pieces that occur in them.

    Attributes:
        column: of each piece of the vocabulary; 0 for pieces that occur in none  # int32 [vocabulary]
        weights: tf · idf² of each source, divided by its norm  # float32 [sources, columns]
    """

    column: NDArray[np.int32]
    weights: NDArray[np.float32]


class SourceSimilarity:
    """Compares sources with those of a store's sentences.

    The weight of a piece is the number of times it occurs in the sentence, times log((1 + sentences) / sentences with
    the piece). Only sentences that count are counted.
    """

    def __init__(self, store: Store) -> None:
        self.vectors = store.source_vectors
        self.numbers = np.array([segment.number for segment in store.segments], np.int64)
        occurring = np.zeros(store.model.vocab_size, np.int64)
        sentences = 0
        for segment, vectors in zip(store.segments, self.vectors, strict=True):
            live = store.entries.sentence_mask.get(segment.name, np.ones(len(vectors), np.bool_))
            counted = vectors.pieces if live.all() else vectors.pieces[np.repeat(live, np.diff(vectors.starts))]
            occurring += np.bincount(counted, minlength=len(occurring))
            sentences += int(live.sum())
        self.idf = np.log((1 + sentences) / np.maximum(occurring, 1)).astype(np.float32)

    def query(self, sources: SourceVectors) -> Query:
        """Prepare sources to be compared with stored ones."""
        weights = sources.counts * self.idf[sources.pieces]
        norms = np.sqrt(_sums(weights**2, sources.starts[:-1], np.diff(sources.starts)))
        pieces, columns = np.unique(sources.pieces, return_inverse=True)
        column = np.zeros(len(self.idf), np.int32)
        column[pieces] = np.arange(1, len(pieces) + 1)
        table = np.zeros((len(sources), len(pieces) + 1), np.float32)
        rows = np.repeat(np.arange(len(sources)), np.diff(sources.starts))
        table[rows, 1 + columns] = weights * self.idf[sources.pieces] / np.maximum(norms[rows], 1e-9)
        return Query(column, table)

    def cosines(self, query: Query, source: NDArray[np.int64], sentences: Ids) -> NDArray[np.float32]:
        """The cosine of each sentence's source with that of the query; 0 where there is no sentence.  # [rows, K]

        Args:
            source: the source of each row among those of the query; −1 where it is unknown  # [rows]
            sentences: as `Entries.sentence` names them; −1 where there is none  # [rows, K]
        """
        found = np.zeros(sentences.shape, np.float32)
        known = (sentences >= 0) & (source >= 0)[:, None]
        count = len(query.weights)
        # the neighbours of a row, and of all hypotheses of a sentence, are of few sentences
        both = (sentences * count + source[:, None])[known]
        distinct, back = np.unique(both, return_inverse=True)
        found[known] = self._of_pairs(query, distinct % count, distinct // count)[back]
        return found

    def _of_pairs(self, query: Query, source: Ids, sentences: Ids) -> NDArray[np.float32]:
        found = np.zeros(len(sentences), np.float32)
        numbers, places = split_ids(sentences)
        for number, vectors in zip(self.numbers, self.vectors, strict=True):
            here = np.flatnonzero(numbers == number)
            starts = vectors.starts[places[here]]
            lengths = vectors.starts[places[here] + 1] - starts
            at = ranges(starts, lengths)
            pieces, counts = vectors.pieces[at], vectors.counts[at]
            shared = counts * query.weights[np.repeat(source[here], lengths), query.column[pieces]]
            norms = np.sqrt(_sums((counts * self.idf[pieces]) ** 2, np.cumsum(lengths) - lengths, lengths))
            found[here] = _sums(shared, np.cumsum(lengths) - lengths, lengths) / np.maximum(norms, 1e-9)
        return found


def _sums(values: NDArray[np.float32], starts: Ids, lengths: Ids) -> NDArray[np.float32]:
    """The sum of each range of values, which follow each other; 0 for an empty one."""
    sums = np.zeros(len(starts), np.float32)
    some = lengths > 0
    if some.any():
        sums[some] = np.add.reduceat(values, starts[some])
    return sums
