"""Accuracy: the share of target tokens that a system would predict right: a figure with less noise than BLEU."""

import torch

from knnmt.combiner import Combiner
from knnmt.training import Features

_TIE = 1e-5  # in log p; the same token's probability may be computed in two ways


@torch.inference_mode()
def accuracy(features: Features, combiner: Combiner | None) -> float:
    """Accuracy: the share of positions whose gold token is the likeliest, given the right tokens before it.

    The likeliest token of the mixture is a neighbour's token or the model's likeliest one, so that the vocabulary is
    not needed.

    Args:
        features: with at least one of the model's highest log p's
        combiner: None: the model alone
    """
    if combiner is None:
        return float((features.log_p >= features.observation.log_p_top[:, 0] - _TIE).double().mean())
    right = 0
    for rows, mixture in features.mixtures(combiner):
        seen = mixture.observation
        gold = mixture.log_p(features.tokens[rows], features.log_p[rows])  # [rows]
        voted = mixture.log_p(seen.values, seen.log_p_values).masked_fill(~seen.exists, -torch.inf)  # [rows, K]
        model = torch.log1p(-mixture.combination.lam) + features.observation.log_p_top[rows, 0]  # [rows]
        right += int((gold >= torch.maximum(voted.amax(1), model) - _TIE).sum())
    return right / len(features)
