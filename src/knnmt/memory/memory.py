"""A store and a combiner as decoding uses them: a decoder's states and logits in, the mixture out."""

from collections.abc import Sequence

import torch
from torch import Tensor

from knnmt.combiner import Combiner
from knnmt.memory.mixture import Mixture
from knnmt.memory.observer import Observer
from knnmt.model import Logits
from knnmt.search import Neighbours, Searcher


class Memory:
    """The neighbours' help for rows of decoder states, whoever runs the model. Threads may share one.

    Args:
        skip_above: rows whose likeliest token has more than this by the model alone are not searched for

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
        """The memory beside a decoder that begins with one row for each source.

        Args:
            sources: encoded; None where whoever runs the model does not say which rows belong to which
        """
        return Recall(self, sources)


class Recall:
    """The memory beside one decoder, row by row.

    Attributes:
        sources: encoded
        source_of_row: which of the sources each row belongs to; None where nobody knows  # [rows]
    """

    def __init__(self, memory: Memory, sources: Sequence[list[int]] | None) -> None:
        self.memory, self.sources = memory, sources
        self.source_of_row = None if sources is None else torch.arange(len(sources))

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, as the decoder does.  # as for `Decoder.select`"""
        if self.source_of_row is not None:
            self.source_of_row = self.source_of_row[rows]

    @torch.inference_mode()
    def ask(self, keys: Tensor, logits: Logits, so_far: Tensor | None = None) -> Mixture:
        """What the memory says of each row's next token.

        Args:
            keys: the key layer's states  # [rows, dim]
            logits: of the same rows
            so_far: the tokens predicted so far of each row, right-aligned, −1 where a row has fewer; may be left out
                where the combiner needs no context  # [rows, any]
        """
        if self.source_of_row is not None and len(self.source_of_row) != len(keys):
            raise ValueError(f"{len(keys)} rows are asked for where {len(self.source_of_row)} were selected")
        observer, combiner = self.memory.observer, self.memory.combiner
        # a search of every row needs no logits, so it could run before the projection or beside it
        found = observer.find(keys) if self.memory.skip_above >= 1 else self._find_where_unsure(keys, logits)
        seen = observer.observe(found, logits, so_far)
        return Mixture(seen, combiner.combine(seen))

    def _find_where_unsure(self, keys: Tensor, logits: Logits) -> Neighbours:
        """The neighbours of each row; none where the model is sure enough without them."""
        unsure = (logits.highest(1)[0].squeeze(1).exp() <= self.memory.skip_above).nonzero().squeeze(1)
        return self.memory.observer.find(keys[unsure]).spread(unsure.cpu().numpy(), len(keys))
