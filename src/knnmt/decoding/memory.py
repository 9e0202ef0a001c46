"""A store and a combiner as decoding uses them: a decoder state and its logits in, the neighbours' say out."""

import torch
from torch import Tensor

from knnmt.combiner import Combination, Combiner, Observation, mix_logits, observe, observe_with
from knnmt.search import Neighbours, Searcher


class Memory:
    """The neighbours' help for rows of decoder states, whoever runs the model.

    Args:
        skip_above: rows whose likeliest token has more than this by the model alone are not searched for
    """

    def __init__(self, searcher: Searcher, combiner: Combiner, skip_above: float = 1.0) -> None:
        self.searcher = searcher
        self.combiner = combiner
        self.skip_above = skip_above

    @torch.inference_mode()
    def ask(
        self, keys: Tensor, logits: Tensor, log_sum_exp: Tensor, log_p_top: Tensor
    ) -> tuple[Observation, Combination]:
        """What was found for each row, and how much to trust it.

        Args:
            keys: the key layer's states  # [rows, dim]
            logits: [rows, vocabulary]
            log_sum_exp: of each row of them  # [rows]
            log_p_top: the model's highest log p's, as many as the combiner looks at or more  # [rows, …]
        """
        seen = observe_with(self.find(keys, log_p_top), logits, log_sum_exp, log_p_top[:, : self.combiner.needs.top])
        return seen, self.combiner.combine(seen)

    def find(self, keys: Tensor, log_p_top: Tensor) -> Neighbours:
        """The neighbours of each row; none where the model is sure enough without them."""
        if self.skip_above >= 1:
            return self.searcher.search(keys.float().cpu().numpy(), self.combiner.k)
        unsure = (log_p_top[:, 0].exp() <= self.skip_above).nonzero().squeeze(1)
        found = self.searcher.search(keys[unsure].float().cpu().numpy(), self.combiner.k)
        return found.spread(unsure.cpu().numpy(), len(keys))

    @torch.inference_mode()
    def mix(self, keys: Tensor, logits: Tensor) -> None:
        """Change the logits in place so that their softmax is the mixture.

        Args:
            keys: the key layer's states  # [rows, dim]
            logits: [rows, vocabulary]
        """
        neighbours = self.searcher.search(keys.detach().float().cpu().numpy(), self.combiner.k)
        log_sum_exp = logits.float().logsumexp(1)
        seen = observe(neighbours, logits, log_sum_exp, self.combiner.needs.top)
        mix_logits(logits, log_sum_exp, seen.values, self.combiner.combine(seen))
