"""Search, and what was found as a combiner sees it."""

import torch
from torch import Tensor

from knnmt.combiner import Needs, Observation, observe
from knnmt.memory.context import matching_past
from knnmt.model import Logits
from knnmt.search import Exclude, Neighbours, Searcher


class Observer:
    """Finds the neighbours of decoder states and joins them with what the model thinks there.

    Fitting, likelihoods, beam search, `attach` and explanations all see a store through it.

    Args:
        needs: what is looked at; nothing else is computed
    """

    def __init__(self, searcher: Searcher, needs: Needs) -> None:
        self.searcher, self.needs = searcher, needs

    def find(self, keys: Tensor, exclude: Exclude | None = None) -> Neighbours:
        """The neighbours of each row. Needs no logits, so it may run before the projection or beside it.

        Args:
            keys: the key layer's states  # [rows, dim]
            exclude: as for `Searcher.search`
        """
        return self.searcher.search(keys.detach().float().cpu().numpy(), self.needs.k, exclude)

    def observe(self, found: Neighbours, logits: Logits, so_far: Tensor | None = None) -> Observation:
        """What was found, as a combiner sees it.

        Args:
            found: for the rows of the logits
            so_far: the tokens predicted so far of each row, right-aligned, −1 where a row has fewer; may be left out
                where the needs have no context  # [rows, any]
        """
        past = None
        if self.needs.context:
            if so_far is None:
                raise ValueError("a combiner that needs context has to be told the tokens so far")
            past = torch.from_numpy(matching_past(self.searcher.entries, found.ids, so_far.cpu().numpy()))
        return observe(found, logits, self.needs.top, past)
