"""The loss and its gradients are those of a loop over sentences and tokens, with the model's own forward pass."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sentences import SENTENCES
from tolerances import SINGLE
from torch import Tensor
from worlds import load

from knnmt.finetuning import loss as loss_module
from knnmt.finetuning.loss import smoothed_loss
from knnmt.finetuning.trainer import dev_nll, trainable
from knnmt.model import TorchEngine, TranslationModel

_RANDOM_SUMS = 1e-4  # of a parameter's gradient against that of all, in single precision; a mistake does ten times more


def encoded(model: TranslationModel) -> tuple[list[list[int]], list[list[int]]]:
    """Sentences of different lengths."""
    pairs = SENTENCES[16:22]
    return model.codec.encode_sources([each for each, _ in pairs]), model.codec.encode_targets(
        [each for _, each in pairs]
    )


def naive_loss(model: TranslationModel, smoothing: float) -> Tensor:
    """One sentence at a time, so that nothing is padded; one token at a time."""
    losses = []
    for source, target in zip(*encoded(model), strict=True):
        read = [*model.codec.prefix, *target[:-1]]
        logits = model.hf(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([read]), use_cache=False
        ).logits[0]
        for row, token in zip(logits[len(model.codec.prefix) - 1 :], target, strict=True):
            log_p = row.log_softmax(0)
            losses.append(-(1 - smoothing) * log_p[token] - smoothing * log_p.mean())
    return torch.stack(losses).mean()


def gradients(model: TranslationModel, loss: Tensor) -> dict[str, Tensor]:
    parameters = trainable(model.hf)
    found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    return {name: each for name, each in zip(parameters, found, strict=True) if each is not None}


@pytest.mark.parametrize("family", ["marian", "fsmt", "m2m100", "t5"])
def test_loss_and_gradients(
    family: str, family_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "_CHUNK_VALUES", 1)  # several chunks
    model = load(family, family_directory(family))
    states = TorchEngine(model).states_of(*encoded(model))
    loss, expected = smoothed_loss(model, states.hidden, states.tokens, 0.1), naive_loss(model, 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=SINGLE)
    found, wanted = gradients(model, loss), gradients(model, expected)
    assert found.keys() == wanted.keys()
    whole = torch.stack([each.norm() for each in wanted.values()]).norm()
    for name, gradient in wanted.items():
        assert (found[name] - gradient).norm() < _RANDOM_SUMS * whole, name


def test_loss_of_projection_with_bias() -> None:
    """Against torch's own cross-entropy."""
    random = torch.Generator().manual_seed(1)
    hidden, weight, bias = (
        torch.randn(size, generator=random, requires_grad=True) for size in ((50, 8), (30, 8), (30,))
    )
    tokens = torch.randint(30, (50,), generator=random)
    for smoothing in (0.0, 0.2):
        found = loss_module._ProjectedLoss.apply(hidden, weight, bias, tokens, smoothing, 7)  # type: ignore[no-untyped-call]
        logits = torch.nn.functional.linear(hidden, weight, bias)
        expected = torch.nn.functional.cross_entropy(logits, tokens, label_smoothing=smoothing)
        torch.testing.assert_close(found, expected, rtol=SINGLE, atol=0)
        for one, other in zip(
            torch.autograd.grad(3 * found, (hidden, weight, bias)),
            torch.autograd.grad(3 * expected, (hidden, weight, bias)),
            strict=True,
        ):
            torch.testing.assert_close(one, other, rtol=SINGLE, atol=SINGLE)


def test_validation(family_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The dev loss has no smoothing and no dropout, and computes no gradients."""
    monkeypatch.setattr(torch.Tensor, "addmm_", None)  # what computes the gradient of the projection
    model = load("marian", family_directory("marian"))
    expected = naive_loss(model, 0.0).item()
    model.hf.train()
    assert dev_nll(TorchEngine(model), *encoded(model)) == pytest.approx(expected, rel=SINGLE)
