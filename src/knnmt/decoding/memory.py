"""A store and a combiner as decoding uses them: a decoder state and its logits in, the neighbours' say out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.combiner import NEVER, Combiner, log_shares_of_both, mix_logits, observe, observe_with
from knnmt.search import Searcher


@dataclass(frozen=True)
class Votes:
    """The neighbours' say in each row's next token.

    Attributes:
        values: their tokens  # [rows, K]
        log_weights: [rows, K]
        log_lam, log_rest: log λ and log(1 − λ)  # both [rows]
    """

    values: Tensor
    log_weights: Tensor
    log_lam: Tensor
    log_rest: Tensor

    def mix(self, log_p: Tensor, tokens: Tensor) -> Tensor:
        """log p of some tokens under the mixture, given their log p_NMT.  # all [rows, tokens]"""
        other = tokens[:, :, None] != self.values[:, None, :]
        votes = self.log_weights[:, None, :].expand_as(other).masked_fill(other, NEVER).logsumexp(2)
        return torch.logaddexp(self.log_rest[:, None] + log_p, self.log_lam[:, None] + votes)


class Memory:
    """The neighbours' help for rows of decoder states, whoever runs the model."""

    def __init__(self, searcher: Searcher, combiner: Combiner) -> None:
        self.searcher = searcher
        self.combiner = combiner

    @torch.inference_mode()
    def vote(self, keys: Tensor, logits: Tensor, log_sum_exp: Tensor, log_p_top: Tensor) -> Votes:
        """What the neighbours of each row say.

        Args:
            keys: the key layer's states  # [rows, dim]
            logits: [rows, vocabulary]
            log_sum_exp: of each row of them  # [rows]
            log_p_top: the model's highest log p's, as many as the combiner looks at or more  # [rows, …]
        """
        found = self.searcher.search(keys.float().cpu().numpy(), self.combiner.k)
        seen = observe_with(found, logits, log_sum_exp, log_p_top[:, : self.combiner.top])
        answer = self.combiner.combine(seen)
        return Votes(seen.values, answer.log_weights, *log_shares_of_both(answer))

    @torch.inference_mode()
    def mix(self, keys: Tensor, logits: Tensor) -> None:
        """Change the logits in place so that their softmax is the mixture.

        Args:
            keys: the key layer's states  # [rows, dim]
            logits: [rows, vocabulary]
        """
        neighbours = self.searcher.search(keys.detach().float().cpu().numpy(), self.combiner.k)
        log_sum_exp = logits.float().logsumexp(1)
        seen = observe(neighbours, logits, log_sum_exp, self.combiner.top)
        mix_logits(logits, log_sum_exp, seen.values, self.combiner.combine(seen))
