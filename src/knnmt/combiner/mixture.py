"""The interpolation p = λ p_kNN + (1 − λ) p_NMT, sparse: p_kNN is at most K tokens, so K logits change."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from knnmt.combiner.combination import NEVER, Combination

_MAX_LOG_ODDS = 13.8  # λ = 1 − 1e-6; beyond it the model's own choice would vanish


def token_log_weights(values: Tensor, log_weights: Tensor) -> Tensor:
    """log p_kNN of each neighbour's token: equal values among the neighbours add up.  # [rows, K]"""
    same = values[:, :, None] == values[:, None, :]  # [rows, K, K]
    return log_weights[:, None, :].expand_as(same).masked_fill(~same, NEVER).logsumexp(2)


def log_shares_of_both(combination: Combination) -> tuple[Tensor, Tensor]:
    """log λ and log(1 − λ), finite for every λ.  # both [rows]"""
    log_odds = combination.log_odds.clamp_max(_MAX_LOG_ODDS)
    return logsigmoid(log_odds), logsigmoid(-log_odds)


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
    log_odds = combination.log_odds.clamp_max(_MAX_LOG_ODDS)
    share = log_odds[:, None] + token_log_weights(values, combination.log_weights)
    vote = (log_sum_exp[:, None] + share).masked_fill(share < NEVER / 2, -torch.inf)  # a logit of −inf stays
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
    votes = combination.log_weights.masked_fill(values != tokens[:, None], NEVER)
    log_lam, log_rest = log_shares_of_both(combination)
    return torch.logaddexp(log_lam + votes.logsumexp(1), log_rest + log_p)
