"""The mixture p = λ p_kNN + (1 − λ) p_NMT of model and memory, for some rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.combiner import Combination, Observation, log_p_knn, mix_logits, mixture_log_p
from knnmt.model import Logits


@dataclass(frozen=True)
class Mixture:
    """What was found for some rows, how much a combiner trusts it, and the resulting probabilities.

    There are at most K neighbours' tokens per row, so nothing of the size of the vocabulary is allocated.
    """

    observation: Observation
    combination: Combination

    def log_p(self, tokens: Tensor, log_p_nmt: Tensor) -> Tensor:
        """log p of some tokens, given their log p_NMT.  # as tokens: [rows] or [rows, n]"""
        return mixture_log_p(self.combination, self.observation.values, tokens, log_p_nmt)

    def p_knn(self, tokens: Tensor) -> Tensor:
        """p_kNN of some tokens.  # as tokens: [rows, n]"""
        return log_p_knn(tokens, self.observation.values, self.combination.log_weights).exp()

    @torch.inference_mode()  # the memory adds no gradients to a model in training
    def mix_into(self, logits: Logits) -> None:
        """Change the logits of the neighbours' tokens in place, so that softmax(logits) is the mixture.

        The logits must have a column for every token.
        """
        if logits.tokens is not None:
            raise ValueError("the mixture is written into logits of the whole vocabulary only")
        mix_logits(logits.values, logits.log_sum_exp, self.observation.values, self.combination)
