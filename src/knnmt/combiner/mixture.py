"""The interpolation p = λ p_kNN + (1 − λ) p_NMT, sparse: p_kNN is at most K tokens, so K logits change."""

import torch
from torch import Tensor

from knnmt.combiner.combination import Combination

_MAX_LAMBDA = 1 - 1e-6  # beyond it the model's own choice would vanish, and logit(λ) overflow


def token_weights(values: Tensor, weights: Tensor) -> Tensor:
    """p_kNN of each neighbour's token: equal values among the neighbours add up.  # [rows, K]"""
    same = values[:, :, None] == values[:, None, :]  # [rows, K, K]
    return (same * weights[:, None, :]).sum(2)


def mix_logits(logits: Tensor, log_sum_exp: Tensor, values: Tensor, combination: Combination) -> None:
    """Change the neighbours' logits in place so that softmax(logits) becomes the mixture, exactly.

    Softmax ignores a constant, so with l the logits and w the tokens' weights only
    l′_v = logaddexp(l_v, lse + logit(λ) + log w_v) has to be written; all other logits stay. At λ = 0 nothing
    changes.

    Args:
        logits: [rows, vocabulary]
        log_sum_exp: [rows]
        values: [rows, K]
    """
    odds = torch.logit(combination.lam.clamp_max(_MAX_LAMBDA))
    vote = (log_sum_exp + odds)[:, None] + token_weights(values, combination.weights).log()
    own = logits.gather(1, values).float()
    # Equal tokens of a row get the same new logit, so it does not matter which of them is written last.
    logits.scatter_(1, values, torch.logaddexp(own, vote).to(logits.dtype))


def mixture_log_p(combination: Combination, values: Tensor, tokens: Tensor, log_p: Tensor) -> Tensor:
    """log p of one token a row under the mixture, given its log p_NMT.  # [rows]

    Args:
        values: [rows, K]
        tokens: [rows]
        log_p: log p_NMT of the tokens  # [rows]
    """
    lam = combination.lam.clamp_max(_MAX_LAMBDA)
    p_knn = (combination.weights * (values == tokens[:, None])).sum(1)
    return torch.logaddexp(lam.log() + p_knn.log(), torch.log1p(-lam) + log_p)
