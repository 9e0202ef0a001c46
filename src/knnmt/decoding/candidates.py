"""How each row may go on: the likeliest tokens of the mixture, found without making the mixture."""

from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.combiner import first_of_its_value, mixture_log_p
from knnmt.decoding.memory import Memory
from knnmt.decoding.rules import Rules
from knnmt.model.runner import Step

_NONE = -torch.inf
_BLOCK = 64


@dataclass(frozen=True)
class Candidates:
    """Tokens that a row may go on with; among them as many of the likeliest as were asked for.

    Attributes:
        log_p: −inf for those that may not  # [rows, candidates]
        tokens: [rows, candidates]
    """

    log_p: Tensor
    tokens: Tensor


def highest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest entries of each row, and where they are: `topk`, several times quicker for long rows.

    None of them is outside the `count` blocks with the highest maxima, so only these are looked through.
    """
    rows, vocabulary = logits.shape
    blocks = vocabulary // _BLOCK
    if blocks < 4 * count:
        return logits.topk(count, dim=1)
    whole = logits[:, : blocks * _BLOCK].view(rows, blocks, _BLOCK)
    chosen = whole.amax(2).topk(count, dim=1).indices
    places = (chosen[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=logits.device)).flatten(1)
    rest = torch.arange(blocks * _BLOCK, vocabulary, device=logits.device)
    places = torch.cat([places, rest.expand(rows, -1)], 1)
    values, order = logits.gather(1, places).topk(count, dim=1)
    return values, places.gather(1, order)


def _log_sum_exp(logits: Tensor, best: Tensor, place: Tensor) -> Tensor:
    """From the share of the highest entry: torch's softmax is one pass, its logsumexp several.  # [rows, 1]"""
    return best - logits.softmax(1).gather(1, place).log()


def propose(step: Step, memory: Memory | None, rules: Rules, count: int, may_end: bool) -> Candidates:
    """The `count` likeliest tokens of each row, and perhaps some more.

    Every row of the vocabulary is read for its log-sum-exp and its highest entries; the neighbours' tokens are at
    most K more, so nothing is written to it.
    """
    banned = torch.tensor([*rules.banned, *(() if may_end else rules.eos)], device=step.logits.device)
    wanted = min(max(count + len(banned), memory.combiner.needs.top if memory else 0), step.logits.shape[1])
    values, tokens = highest(step.logits, wanted)
    log_sum_exp = _log_sum_exp(step.logits, values[:, :1], tokens[:, :1])
    log_p = values - log_sum_exp
    log_p_banned = step.logits[:, banned] - log_sum_exp if len(banned) and rules.renormalize else None
    if memory is not None:
        seen, trust = memory.ask(step.keys, step.logits, log_sum_exp.squeeze(1), log_p)
        new = first_of_its_value(seen.values) & ~(seen.values[:, :, None] == tokens[:, None, :]).any(2)
        if log_p_banned is not None:
            log_p_banned = mixture_log_p(trust, seen.values, banned.expand(len(log_p), -1), log_p_banned)
        log_p = torch.cat([log_p, seen.log_p_values.masked_fill(~new, _NONE)], 1)
        tokens = torch.cat([tokens, seen.values], 1)
        log_p = mixture_log_p(trust, seen.values, tokens, log_p).where(log_p > _NONE, _NONE)
    if len(banned):
        log_p = log_p.masked_fill(torch.isin(tokens, banned), _NONE)
    if log_p_banned is not None:
        log_p = log_p - torch.log1p(-log_p_banned.exp().sum(1, keepdim=True).clamp_max(1 - 1e-6))
    return Candidates(log_p.cpu(), tokens.cpu())  # what is left is small, and the search's books are kept there
