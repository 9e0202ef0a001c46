"""Search, and the observation that a combiner gets from it."""

import torch
from torch import Tensor

from knnmt.combiner import Needs, Observation, observe
from knnmt.memory.context import matching_past
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

    def find(self, keys: Tensor, exclude: Exclude | None = None) -> Neighbours:
        """The neighbours of each row. It needs no logits, so it may run before or during the projection.

        Args:
            keys: the key layer's states  # [rows, dim]
            exclude: as in `Searcher.search`
        """
        return self.searcher.search(keys.detach().float().cpu().numpy(), self.needs.k, exclude)

    def observe(self, found: Neighbours, logits: Logits, so_far: Tensor | None = None) -> Observation:
        """The observation for a combiner.

        Args:
            found: the neighbours of the same rows as the logits
            so_far: the tokens predicted so far, right-aligned and padded with −1; optional if `needs` has no
                context  # [rows, any]
        """
        past = None
        if self.needs.context:
            if so_far is None:
                raise ValueError("a combiner that needs context has to be told the tokens so far")
            past = torch.from_numpy(matching_past(self.searcher.entries, found.ids, so_far.cpu().numpy()))
        return observe(found, logits, self.needs.top, past)
