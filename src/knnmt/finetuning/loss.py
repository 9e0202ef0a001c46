"""The loss of decoder states, without ever holding the logits of all of them."""

from typing import Any

import torch
from torch import Tensor

from knnmt.model import TranslationModel

_CHUNK_VALUES = 16_000_000  # logits held at once: 64 MB


def smoothed_loss(model: TranslationModel, hidden: Tensor, tokens: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy with label smoothing, in nats per token, as of `torch.nn.functional.cross_entropy`.

    Args:
        hidden: the inputs of the output projection  # [positions, d_model]
        tokens: the token to predict at each position  # [positions]
        smoothing: the share of the target distribution that is uniform over the vocabulary
    """
    weight, bias = model.tap.projection.weight, _bias(model)
    if not torch.is_grad_enabled():  # the function below would compute the gradient all the same
        weight, bias = weight.detach(), None if bias is None else bias.detach()
    rows = max(16, _CHUNK_VALUES // model.vocab_size)
    loss: Tensor = _ProjectedLoss.apply(hidden, weight, bias, tokens, smoothing, rows)  # type: ignore[no-untyped-call]
    return loss


def _bias(model: TranslationModel) -> Tensor | None:
    """The bias of the logits; not `model.bias`, which is computed once and would not follow the training."""
    parts = [model.tap.projection.bias, getattr(model.hf, "final_logits_bias", None)]
    known = [part.reshape(-1) for part in parts if part is not None]
    return torch.stack(known).sum(0) if known else None


class _ProjectedLoss(torch.autograd.Function):
    """Projects chunk by chunk. The gradients are computed in the forward pass, while the logits of a chunk exist."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, tokens: Tensor, smoothing: float, rows: int
    ) -> Tensor:
        positions, vocabulary = len(hidden), len(weight)
        wanted: list[Tensor | None] = [
            torch.zeros_like(each) if needed and each is not None else None
            for each, needed in zip((hidden, weight, bias), ctx.needs_input_grad, strict=False)
        ]
        of_hidden, of_weight, of_bias = wanted
        loss = torch.zeros((), dtype=torch.float64, device=hidden.device)
        uniform = smoothing / vocabulary
        for start in range(0, positions, rows):
            part = slice(start, start + rows)
            states, gold = hidden[part], tokens[part, None]
            log_p = torch.nn.functional.linear(states, weight, bias).float().log_softmax(1)  # [rows, vocabulary]
            loss -= (1 - smoothing) * log_p.gather(1, gold).double().sum()
            if smoothing:
                loss -= uniform * log_p.sum(1).double().sum()
            if all(each is None for each in wanted):
                continue
            # the derivative by the logits: p minus the smoothed target
            slope = log_p.exp_()
            if smoothing:
                slope -= uniform
            slope.scatter_add_(1, gold, torch.full_like(gold, smoothing - 1, dtype=slope.dtype))
            slope = slope.to(hidden.dtype)
            if of_hidden is not None:
                torch.mm(slope, weight, out=of_hidden[part])
            if of_weight is not None:
                of_weight.addmm_(slope.T, states)
            if of_bias is not None:
                of_bias += slope.sum(0)
        ctx.positions = positions
        ctx.save_for_backward(*wanted)
        return (loss / positions).float()

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        scale = outputs[0] / ctx.positions
        # in place: a gradient as large as the output projection is not copied
        return *(None if each is None else each.mul_(scale) for each in ctx.saved_tensors), None, None, None
