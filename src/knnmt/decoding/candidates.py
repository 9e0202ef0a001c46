"""How each row may go on: the likeliest tokens of the mixture, found without making the mixture."""

from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.combiner import first_of_its_value
from knnmt.decoding.rules import Rules
from knnmt.memory import Mixture
from knnmt.model import Logits

_IMPOSSIBLE = -torch.inf


@dataclass(frozen=True)
class Candidates:
    """Tokens that a row may go on with; among them as many of the likeliest as were asked for.

    Attributes:
        log_p: −inf for those that may not  # [rows, candidates]
        tokens: [rows, candidates]
    """

    log_p: Tensor
    tokens: Tensor


def propose(logits: Logits, mixture: Mixture | None, rules: Rules, count: int, may_end: bool) -> Candidates:
    """The `count` likeliest tokens of each row, and perhaps some more.

    Every row of the vocabulary is read for its log-sum-exp and its highest entries; the neighbours' tokens are at
    most K more, so nothing is written to it.
    """
    banned = torch.tensor([*rules.banned, *(() if may_end else rules.eos)], dtype=torch.int64, device=logits.device)
    log_p, tokens = logits.highest(min(count + len(banned), logits.columns))
    log_p_banned = logits.log_p(banned.expand(len(logits), -1)) if len(banned) and rules.renormalize else None
    if mixture is not None:
        seen = mixture.observation
        new = first_of_its_value(seen.values) & ~(seen.values[:, :, None] == tokens[:, None, :]).any(2)
        if log_p_banned is not None:
            log_p_banned = mixture.log_p(banned.expand(len(log_p), -1), log_p_banned)
        log_p = torch.cat([log_p, seen.log_p_values.masked_fill(~new, _IMPOSSIBLE)], 1)
        tokens = torch.cat([tokens, seen.values], 1)
        log_p = mixture.log_p(tokens, log_p).where(log_p > _IMPOSSIBLE, _IMPOSSIBLE)
    if len(banned):
        log_p = log_p.masked_fill(torch.isin(tokens, banned), _IMPOSSIBLE)
    if log_p_banned is not None:
        log_p = log_p - torch.log1p(-log_p_banned.exp().sum(1, keepdim=True).clamp_max(1 - 1e-6))
    return Candidates(log_p.cpu(), tokens.cpu())  # what is left is small, and the search's books are kept there
