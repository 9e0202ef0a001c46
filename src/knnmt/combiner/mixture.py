"""The sparse interpolation p = λ p_kNN + (1 − λ) p_NMT: p_kNN has at most K tokens, so at most K logits change."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from knnmt.combiner.combination import Combination
from knnmt.combiner.observation import LOG_ZERO

_MAX_LOG_ODDS = 13.8  # λ = 1 − 1e-6; with more, p_NMT would vanish


def log_p_knn(tokens: Tensor, values: Tensor, log_weights: Tensor) -> Tensor:
    """log p_kNN of some tokens: the weights of neighbours with the same value add up.

    Args:
        tokens: [rows, tokens]
        values, log_weights: those of the neighbours  # [rows, K]
    """
    other = tokens[:, :, None] != values[:, None, :]  # [rows, tokens, K]
    return log_weights[:, None, :].expand_as(other).masked_fill(other, LOG_ZERO).logsumexp(2)


def log_shares_of_both(combination: Combination) -> tuple[Tensor, Tensor]:
    """log λ and log(1 − λ), finite for every λ.  # both [rows]"""
    log_odds = combination.log_odds.clamp_max(_MAX_LOG_ODDS)
    return logsigmoid(log_odds), logsigmoid(-log_odds)


def mix_logits(logits: Tensor, log_sum_exp: Tensor, values: Tensor, combination: Combination) -> None:
    """Change the logits of the neighbours' tokens in place, so that softmax(logits) is exactly the mixture.

    Softmax ignores a constant. So with l the logits and w the tokens' weights, only
    l′_v = logaddexp(l_v, lse + logit(λ) + log w_v) has to be written; all other logits stay. At λ = 0 nothing
    changes.

    Args:
        logits: [rows, vocabulary]
        log_sum_exp: [rows]
        values: [rows, K]
    """
    log_odds = combination.log_odds.clamp_max(_MAX_LOG_ODDS)
    share = log_odds[:, None] + log_p_knn(values, values, combination.log_weights)
    vote = (log_sum_exp[:, None] + share).masked_fill(share < LOG_ZERO / 2, -torch.inf)  # a logit of −inf stays
    own = logits.gather(1, values).float()
    # Equal tokens of a row get the same new logit, so it does not matter which of them is written last.
    logits.scatter_(1, values, torch.logaddexp(own, vote).to(logits.dtype))


def mixture_log_p(combination: Combination, values: Tensor, tokens: Tensor, log_p: Tensor) -> Tensor:
    """log p of some tokens under the mixture, given their log p_NMT.  # as tokens

    Args:
        values: [rows, K]
        tokens: one per row or several  # [rows] or [rows, tokens]
        log_p: log p_NMT of the tokens  # as tokens
    """
    if tokens.ndim == 1:
        return mixture_log_p(combination, values, tokens[:, None], log_p[:, None]).squeeze(1)
    log_lam, log_rest = log_shares_of_both(combination)
    votes = log_p_knn(tokens, values, combination.log_weights)
    return torch.logaddexp(log_lam[:, None] + votes, log_rest[:, None] + log_p)
