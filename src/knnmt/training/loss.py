"""The training loss: label-smoothed NLL of the mixture, without tensors of the vocabulary's size."""

from torch import Tensor

from knnmt.combiner import Combination, Observation, first_of_its_value, log_shares_of_both, mixture_log_p


def smoothed_nll(
    combination: Combination,
    seen: Observation,
    tokens: Tensor,
    log_p: Tensor,
    log_p_sum: Tensor,
    vocabulary: int,
    smoothing: float,
) -> Tensor:
    """(1 − ε) · −log p(gold) + ε / V · Σ_v −log p(v), where p is the mixture.  # [rows]

    The neighbours change only n tokens of the distribution; for all others log p = log(1 − λ) + log p_NMT.

    Args:
        tokens: the gold tokens  # [rows]
        log_p: their log p_NMT  # [rows]
        log_p_sum: Σ log p_NMT over the vocabulary  # [rows]
        vocabulary: V
        smoothing: ε
    """
    nll = -mixture_log_p(combination, seen.values, tokens, log_p)
    if smoothing == 0:
        return nll
    log_rest = log_shares_of_both(combination)[1]
    mixed = mixture_log_p(combination, seen.values, seen.values, seen.log_p_values)
    changed = first_of_its_value(seen.values) & seen.exists  # each distinct token once
    total = (
        (vocabulary - changed.sum(1)) * log_rest
        + log_p_sum
        + (mixed - seen.log_p_values).masked_fill(~changed, 0.0).sum(1)
    )
    return (1 - smoothing) * nll - smoothing / vocabulary * total
