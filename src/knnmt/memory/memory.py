"""A store and a combiner for decoding: decoder states and logits in, the mixture out."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from knnmt.combiner import Combiner
from knnmt.datastore import Ids
from knnmt.memory.context import Place
from knnmt.memory.mixture import Mixture
from knnmt.memory.observer import Observer
from knnmt.model import Logits
from knnmt.search import Neighbours, Searcher


class Memory:
    """Mixes neighbours into a model's predictions, independently of what runs the model. Threads may share one.

    Args:
        skip_above: no search for rows where the model's highest probability is above this

    Example:
        recall = memory.begin(sources)
        states = decoder.step(tokens)
        logits = decoder.project(states)
        mixture = recall.ask(states.keys, logits, so_far)
    """

    def __init__(self, searcher: Searcher, combiner: Combiner, skip_above: float = 1.0) -> None:
        self.searcher, self.combiner, self.skip_above = searcher, combiner, skip_above
        self.observer = Observer(searcher, combiner.needs)

    def begin(self, sources: Sequence[list[int]] | None = None) -> "Recall":
        """The memory for one decoder, which starts with one row per source.

        Args:
            sources: encoded sources; None where it is unknown which rows belong to which source
        """
        return Recall(self, sources)

    @torch.inference_mode()
    def find(self, keys: Tensor, logits: Logits) -> Neighbours:
        """The neighbours of each row; none where the model is sure enough without them."""
        if self.skip_above >= 1:
            return self.observer.find(keys)  # needs no logits, so it could run before or during the projection
        unsure = (logits.highest(1)[0].squeeze(1).exp() <= self.skip_above).nonzero().squeeze(1)
        return self.observer.find(keys[unsure]).spread(unsure.cpu().numpy(), len(keys))

    @torch.inference_mode()
    def mix(self, found: Neighbours, logits: Logits, place: Place) -> Mixture:
        """The mixture for the next token of each row, whose neighbours were found."""
        seen = self.observer.observe(found, logits, self.observer.context(found, place))
        return Mixture(seen, self.combiner.combine(seen))


class Recall:
    """The memory for one decoder.

    Attributes:
        sources: encoded sources
        source_of_row: the index of each row's source; None if unknown  # [rows]
    """

    def __init__(self, memory: Memory, sources: Sequence[list[int]] | None) -> None:
        self.memory, self.sources = memory, sources
        self.source_of_row = None if sources is None else torch.arange(len(sources))
        self._query = memory.observer.query(sources)
        self._previous: Ids | None = None  # each row's neighbours of the last step

    def select(self, rows: Tensor) -> None:
        """Continue with some of the rows, as in `Decoder.select`."""
        if self.source_of_row is not None:
            self.source_of_row = self.source_of_row[rows]
        if self._previous is not None and "continuation" in self.memory.combiner.needs.context:
            self._previous = self._previous[rows.cpu().numpy()]

    @torch.inference_mode()
    def ask(self, keys: Tensor, logits: Logits, so_far: Tensor | None = None) -> Mixture:
        """The mixture for each row's next token.

        Args:
            keys: the key layer's states  # [rows, dim]
            logits: logits of the same rows
            so_far: the tokens predicted so far, as in `Place`; optional if the combiner needs no prefix  # [rows, any]
        """
        if self.source_of_row is not None and len(self.source_of_row) != len(keys):
            raise ValueError(f"{len(keys)} rows are asked for where {len(self.source_of_row)} were selected")
        source = None if self.source_of_row is None else self.source_of_row.cpu().numpy()
        found = self.memory.find(keys, logits)
        mixture = self.memory.mix(found, logits, Place(so_far, self._query, source, self._previous))
        self._previous = found.ids
        return mixture

    @torch.inference_mode()
    def follow(self, keys: Tensor, logits: Logits, so_far: Tensor) -> Mixture:
        """As `ask`, for the next positions of a target that is known: each row is one step after the one before it.

        The decoder has one source.
        """
        found = self.memory.find(keys, logits)
        before = np.full_like(found.ids[:1], -1) if self._previous is None else self._previous
        previous = np.concatenate([before, found.ids[:-1]])
        self._previous = found.ids[-1:]
        return self.memory.mix(found, logits, Place(so_far, self._query, np.zeros(len(keys), np.int64), previous))
