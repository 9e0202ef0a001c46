"""A store and a combiner for decoding: decoder states and logits in, the mixture out."""

from collections.abc import Sequence

import torch
from torch import Tensor

from knnmt.combiner import Combiner
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


class Recall:
    """The memory for one decoder.

    Attributes:
        sources: encoded sources
        source_of_row: the index of each row's source; None if unknown  # [rows]
    """

    def __init__(self, memory: Memory, sources: Sequence[list[int]] | None) -> None:
        self.memory, self.sources = memory, sources
        self.source_of_row = None if sources is None else torch.arange(len(sources))

    def select(self, rows: Tensor) -> None:
        """Continue with some of the rows, as in `Decoder.select`."""
        if self.source_of_row is not None:
            self.source_of_row = self.source_of_row[rows]

    @torch.inference_mode()
    def ask(self, keys: Tensor, logits: Logits, so_far: Tensor | None = None) -> Mixture:
        """The mixture for each row's next token.

        Args:
            keys: the key layer's states  # [rows, dim]
            logits: logits of the same rows
            so_far: the tokens predicted so far, right-aligned and padded with −1; optional if the combiner needs no
                context  # [rows, any]
        """
        if self.source_of_row is not None and len(self.source_of_row) != len(keys):
            raise ValueError(f"{len(keys)} rows are asked for where {len(self.source_of_row)} were selected")
        observer, combiner = self.memory.observer, self.memory.combiner
        # a search of every row needs no logits, so it could run before or during the projection
        found = observer.find(keys) if self.memory.skip_above >= 1 else self._find_where_unsure(keys, logits)
        seen = observer.observe(found, logits, so_far)
        return Mixture(seen, combiner.combine(seen))

    def _find_where_unsure(self, keys: Tensor, logits: Logits) -> Neighbours:
        """The neighbours of each row; none where the model is sure enough without them."""
        unsure = (logits.highest(1)[0].squeeze(1).exp() <= self.memory.skip_above).nonzero().squeeze(1)
        return self.memory.observer.find(keys[unsure]).spread(unsure.cpu().numpy(), len(keys))
