"""A store and a combiner as decoding uses them: a decoder state and its logits in, the mixture's logits out."""

import torch
from torch import Tensor

from knnmt.combiner import Combiner, mix_logits, observe
from knnmt.search import Searcher


class Memory:
    """The neighbours' help for rows of decoder states, whoever runs the model."""

    def __init__(self, searcher: Searcher, combiner: Combiner) -> None:
        self.searcher = searcher
        self.combiner = combiner

    @torch.inference_mode()
    def mix(self, keys: Tensor, logits: Tensor) -> None:
        """Change the logits in place so that their softmax is the mixture.

        Args:
            keys: the key layer's states  # [rows, dim]
            logits: [rows, vocabulary]
        """
        neighbours = self.searcher.search(keys.detach().float().cpu().numpy(), self.combiner.k)
        log_sum_exp = logits.float().logsumexp(1)
        seen = observe(neighbours, logits, log_sum_exp, self.combiner.top)
        mix_logits(logits, log_sum_exp, seen.values, self.combiner.combine(seen))
