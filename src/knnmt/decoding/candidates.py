"""Candidates for each row's next token: the likeliest tokens of the mixture, found without computing all of it."""

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
    """Candidates for the next token of each row; they include the likeliest ones, as many as were asked for.

    Attributes:
        log_p: −inf for tokens that are not allowed  # [rows, candidates]
        tokens: [rows, candidates]
    """

    log_p: Tensor
    tokens: Tensor


def propose(logits: Logits, mixture: Mixture | None, rules: Rules, count: int, may_end: bool) -> Candidates:
    """The `count` likeliest tokens of each row, and perhaps some more.

    Each row of logits is read for its log-sum-exp and its highest entries. The neighbours add at most K tokens, so
    nothing is written to the row.
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
    return Candidates(log_p.cpu(), tokens.cpu())  # small by now, and beam search runs on the CPU
