"""Search in a store: candidates from the index, and from the entries it does not cover, ranked by their distances."""

from typing import Any

import numpy as np
import numpy.typing as npt

from knnmt.datastore import ConfigFile, Entries, Ids, Store
from knnmt.datastore.segment import FIX as FIX_SEGMENT
from knnmt.errors import StoreError
from knnmt.search.candidates import Candidates, nearest_by_estimate
from knnmt.search.config import IndexConfig, flat_config
from knnmt.search.exact import DamagedKeyError, Exclude, closest, nearest_allowed
from knnmt.search.flat import Flat
from knnmt.search.index import INDEX_KINDS, Index
from knnmt.search.keys import Floats
from knnmt.search.neighbours import Neighbours
from knnmt.search.parameters import fits_in_memory

WIDER = (1, 2, 4, 8, 16, 32, 64)  # factors by which a search is repeated wider; after the last one it is exact
DISTANCES = ("exact", "code")


class Searcher:
    """Finds the nearest entries of a store. Threads may share one.

    Example:
        neighbours = Searcher(store).search(hidden_states, k=8)
        neighbours.values  # int32 [rows, 8]
    """

    def __init__(self, store: Store, in_memory: bool | None = None, distances: str = "exact") -> None:
        """Opens the index, if there is one. Raises `StoreError` if it is missing, damaged or of other segments.

        Args:
            in_memory: hold the index in memory, which is faster, or map its file; None: hold it if it fits
            distances: `exact`, or `code`: the index's own estimates, which rank the neighbours too
        """
        if distances not in DISTANCES:
            raise StoreError(f"there are no distances {distances!r}; choose one of {', '.join(DISTANCES)}")
        if not store.entry_count:
            raise StoreError(f"{store.path} holds no entries; add some with `knnmt build`")
        self.store = store
        self.entries = store.entries
        self.config = flat_config(store.entries)
        self.indexes: list[Index] = []
        uncovered = {segment.name for segment in store.segments}
        if store.index_config is not None:
            self.config = IndexConfig.of(store.index_config)
            uncovered -= self.config.segments.keys()
            held = fits_in_memory(self.config.entries, self.config.dim) if in_memory is None else in_memory
            self.indexes.append(_open(store.index_config, self.config, store.entries, held))
        tail = store.entries.of_segments(uncovered)
        if len(tail):
            self.indexes.append(Flat(tail))
        self.by_code = distances == "code" and any(index.coded for index in self.indexes)

    @property
    def description(self) -> str:
        """Index, probes and whose distances, for signatures."""
        parts = [self.config.index]
        if self.config.probes is not None:
            parts.append(f"probes={self.config.probes}")
            parts += ["in-memory"] if self.indexes[0].in_memory else []
        parts += ["distances=code"] if self.by_code else []
        return ",".join(parts)

    def search(self, queries: npt.NDArray[np.float32], k: int, exclude: Exclude | None = None) -> Neighbours:
        """The k nearest entries of each query.

        Args:
            queries: float32 [rows, dim]
            k: number of neighbours
            exclude: takes candidate ids [n, m] (−1 where there is none) and their rows [n] of `queries`, and returns a
                mask [n, m] that is True where an entry must be left out; called until k others are found
        """
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.entries.dim:
            raise ValueError(f"queries of shape {list(queries.shape)} where [rows, {self.entries.dim}] was expected")
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        ids, distances = self._search(queries, k, exclude)
        try:
            values = np.where(ids < 0, np.int32(0), self.entries.values(ids))
        except IndexError as error:
            raise self._wrong_index("names entries that the store does not have") from error
        if values.size and not 0 <= values.min() <= values.max() < self.store.model.vocab_size:
            raise self._damaged("tokens outside of the vocabulary")
        return Neighbours(ids, distances, values, self.entries.log_confidence(ids))

    def _search(self, queries: Floats, k: int, exclude: Exclude | None) -> tuple[Ids, Floats]:
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        distances = np.full((len(queries), k), np.inf, dtype=np.float32)
        pending = np.arange(len(queries))  # rows that need more neighbours
        for widen in WIDER[0 if exclude is None else 1 :]:
            if not len(pending):
                return ids, distances
            proposed, enough = self._candidates(queries[pending], pending, k, widen, exclude)
            ids[pending], distances[pending] = self._nearest(queries[pending], proposed, k)
            pending = pending[~enough]
        if self.by_code:
            for row in pending.reshape(-1, 1):  # one at a time: it may have as many candidates as there are entries
                proposed, _ = self._candidates(queries[row], row, k, len(self.entries), exclude)
                ids[row], distances[row] = self._nearest(queries[row], proposed, k)
        elif len(pending):
            candidates = nearest_allowed(self.entries, queries[pending], pending, k, exclude)
            ids[pending], distances[pending] = self._closest(queries[pending], candidates, k)
        return ids, distances

    def _candidates(
        self, queries: Floats, rows: Ids, k: int, widen: int, exclude: Exclude | None
    ) -> tuple[list[Candidates], npt.NDArray[np.bool_]]:
        """The candidates of each index that are not excluded, and a mask of the rows for which they are enough.

        They are enough if each index has at least k, or all that it has.
        """
        proposed, enough = [], np.ones(len(rows), dtype=np.bool_)
        for index in self.indexes:
            each = index.candidates(queries, k, widen)
            all_there = np.count_nonzero(each.ids >= 0, axis=1) >= index.size
            if exclude is not None:
                each = each.without(exclude(each.ids, rows))
            if index.rescore == 1 and each.ids.shape[1] > k:
                each = each.first(k)
            enough &= all_there | (np.count_nonzero(each.ids >= 0, axis=1) >= k)
            proposed.append(each)
        return proposed, enough

    def _nearest(self, queries: Floats, proposed: list[Candidates], k: int) -> tuple[Ids, Floats]:
        """The k nearest of the candidates of all indexes: ids and distances [rows, k]."""
        if not self.by_code:
            return self._closest(queries, np.concatenate([each.ids for each in proposed], axis=1), k)
        estimated = [
            each if index.coded else Candidates(*self._closest(queries, each.ids, k))
            for index, each in zip(self.indexes, proposed, strict=True)
        ]
        if not all(np.isfinite(each.estimates[each.ids >= 0]).all() for each in estimated):
            raise self._wrong_index("gives distances that are not numbers")
        return nearest_by_estimate(estimated, k)

    def _closest(self, queries: Floats, candidates: Ids, k: int) -> tuple[Ids, Floats]:
        try:
            return closest(self.entries, queries, candidates, k)
        except DamagedKeyError as error:
            raise self._damaged("keys that are not numbers") from error
        except IndexError as error:
            raise self._wrong_index("names entries that the store does not have") from error

    def _wrong_index(self, what: str) -> StoreError:
        file = self.store.index_config
        assert file is not None, "exact search proposes what it has read"
        return StoreError(f"the index in {file.directory} {what}; {file.fix}")

    def _damaged(self, what: str) -> StoreError:
        return StoreError(
            f"damaged: {self.store.path} holds {what}; find out where with `knnmt verify`, then {FIX_SEGMENT}"
        )


def _open(file: ConfigFile, config: IndexConfig, entries: Entries, in_memory: bool) -> Index:
    if config.kind not in INDEX_KINDS:
        raise StoreError(
            f"the index in {file.directory} is of kind {config.kind!r}, which this version of knnmt "
            "does not know; install a newer one"
        )
    covered = entries.of_segments(config.segments)
    if not config.is_of(entries) or len(covered) != config.entries or config.dim != entries.dim:
        raise StoreError(f"the index in {file.directory} is not of this store's segments; {file.fix}")
    return INDEX_KINDS[config.kind].open(file.directory, config, covered, in_memory)


def describe_index(store: Store) -> dict[str, Any]:
    """The search of a store, for `knnmt info`; does not open the index."""
    file = store.index_config
    config = flat_config(store.entries) if file is None else IndexConfig.of(file)
    return {
        "engine": config.engine,
        "index": config.index,
        "probes": config.probes,
        "rescore": config.rescore,
        "recall": config.recall,
        "entries": config.entries,
        "exact_entries": store.entry_count - config.entries,
        "pairs": config.entries,  # the earlier names of these two
        "exact_pairs": store.entry_count - config.entries,
        "problems": [] if file is None else config.problems(file.directory),
    }
