"""Search, and the observation that a combiner gets from it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knnmt.combiner import Needs, Observation, observe
from knnmt.datastore import SourceVectors
from knnmt.memory.context import (
    Columns,
    Place,
    continued,
    matching_past,
    past_of_targets,
    previous_in_targets,
    same_beginning,
)
from knnmt.memory.similarity import Query, SourceSimilarity
from knnmt.model import Logits
from knnmt.search import Exclude, Neighbours, Searcher


class Observer:
    """Finds the neighbours of decoder states and joins them with the model's own predictions.

    Fitting, likelihoods, beam search, `attach` and explanations all use it.

    Args:
        needs: what the combiner needs; nothing else is computed
    """

    def __init__(self, searcher: Searcher, needs: Needs) -> None:
        self.searcher, self.needs = searcher, needs
        self.similarity = SourceSimilarity(searcher.store) if "source" in needs.context else None

    def find(self, keys: Tensor, exclude: Exclude | None = None) -> Neighbours:
        """The neighbours of each row. It needs no logits, so it may run before or during the projection.

        Args:
            keys: the key layer's states  # [rows, dim]
            exclude: as in `Searcher.search`
        """
        return self.searcher.search(keys.detach().float().cpu().numpy(), self.needs.k, exclude)

    def query(self, sources: Sequence[Sequence[int]] | SourceVectors | None) -> Query | None:
        """Encoded sources, prepared to be compared with stored ones; None if they are not needed or not known."""
        if self.similarity is None or sources is None:
            return None
        return self.similarity.query(sources if isinstance(sources, SourceVectors) else SourceVectors.of(sources))

    def context(self, found: Neighbours, place: Place) -> Columns:
        """What neighbours and rows have in common: the columns of an observation that the combiner needs."""
        entries, ids = self.searcher.entries, found.ids
        columns: dict[str, NDArray[Any]] = {}
        if "prefix" in self.needs.context:
            if place.so_far is None:
                raise ValueError("a combiner that needs the prefix has to be told the tokens so far")
            so_far = place.so_far.cpu().numpy()
            past = matching_past(entries, ids, so_far)
            columns |= {"matching_past": past, "same_beginning": same_beginning(entries, ids, so_far, past)}
        if self.similarity is not None:
            cosines = np.zeros(ids.shape, np.float32)
            if place.query is not None and place.source is not None:
                cosines = self.similarity.cosines(place.query, place.source, entries.sentence(ids))
            columns["source_similarity"] = cosines
        if "continuation" in self.needs.context:
            nothing = np.zeros(ids.shape, np.bool_)
            columns["continued"] = nothing if place.previous is None else continued(entries, ids, place.previous)
        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def context_of_targets(
        self, found: Neighbours, tokens: Tensor, lengths: NDArray[np.int64], query: Query | None
    ) -> Columns:
        """As `context`, for every position of whole targets.

        Args:
            tokens: the targets' tokens, concatenated  # [positions]
            lengths: how many tokens each target has  # [targets]
            query: one source for each target
        """
        if not self.needs.context:
            return {}
        source = np.repeat(np.arange(len(lengths)), lengths)
        previous = previous_in_targets(found.ids, lengths)
        return self.context(found, Place(past_of_targets(tokens, lengths), query, source, previous))

    def observe(self, found: Neighbours, logits: Logits, context: Columns) -> Observation:
        """The observation for a combiner.

        Args:
            found: the neighbours of the same rows as the logits
            context: of the same rows
        """
        return observe(found, logits, self.needs.top, context)
