"""Model and memory together: p = λ p_kNN + (1 − λ) p_NMT for some rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.combiner import Combination, Observation, log_p_knn, mix_logits, mixture_log_p
from knnmt.model import Logits


@dataclass(frozen=True)
class Mixture:
    """What was found for some rows, how much a combiner trusts it, and what follows for the next token.

    The neighbours' tokens are at most K per row, so nothing of the size of the vocabulary is made.
    """

    observation: Observation
    combination: Combination

    def log_p(self, tokens: Tensor, log_p_nmt: Tensor) -> Tensor:
        """log p of some tokens, given the model's own.  # as tokens: [rows] or [rows, n]"""
        return mixture_log_p(self.combination, self.observation.values, tokens, log_p_nmt)

    def p_knn(self, tokens: Tensor) -> Tensor:
        """The neighbours' votes for some tokens.  # tokens [rows, n]"""
        return log_p_knn(tokens, self.observation.values, self.combination.log_weights).exp()

    @torch.inference_mode()  # whoever trains the model keeps its own gradients
    def mix_into(self, logits: Logits) -> None:
        """Change the neighbours' logits in place so that their softmax is the mixture. All tokens have a column."""
        if logits.tokens is not None:
            raise ValueError("the mixture is written into logits of the whole vocabulary only")
        mix_logits(logits.values, logits.log_sum_exp, self.observation.values, self.combination)
