"""Adapters: what is trained, and what the merged model computes."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentences import SENTENCES
from tolerances import NLL, SINGLE, STATES
from torch import nn
from worlds import load

from knnmt.errors import FinetuneError
from knnmt.finetuning import FinetuneRecipe, FinetuneReport
from knnmt.finetuning.lora import add_adapters, linear_maps
from knnmt.finetuning.trainer import dev_nll, trainable
from knnmt.model import TorchEngine, TranslationModel

Tune = Callable[..., FinetuneReport]
FAMILIES = ["marian", "fsmt", "t5"]


@pytest.mark.parametrize("family", FAMILIES)
def test_only_adapters_are_trained(family: str, tune: Tune, out: Path, family_directory: Callable[[str], Path]) -> None:
    report = tune(family, method="lora", lora_rank=3)
    before, after = (load_file(path / "model.safetensors") for path in (family_directory(family), out))
    assert before.keys() == after.keys()
    model: Any = load(family, family_directory(family)).hf
    maps = {name: module for name, module in model.named_modules() if name in linear_maps(model)}
    assert len(maps) == 2 * (4 + 2) + 2 * (4 + 4 + 2)  # attention and feed-forward in two layers of each stack
    changed = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert changed == {f"{name}.weight" for name in maps}
    numbers = sum(3 * (each.in_features + each.out_features) for each in maps.values())
    assert report.trained_parameters == numbers
    assert 4 * numbers < report.bytes < 4 * numbers + 20_000  # a file with the adapters alone
    tuned = load(family, out)
    sources, targets = zip(*SENTENCES[30:], strict=True)
    found = dev_nll(TorchEngine(tuned), tuned.codec.encode_sources(sources), tuned.codec.encode_targets(targets))
    assert found == pytest.approx(report.best.nll, abs=NLL)


@pytest.mark.parametrize("family", FAMILIES)
def test_merged_is_base_plus_adapter(family: str, family_directory: Callable[[str], Path]) -> None:
    model = load(family, family_directory(family))
    before = {name: weight.clone() for name, weight in model.hf.state_dict().items()}
    wrapper = add_adapters(model.hf, FinetuneRecipe(method="lora", lora_rank=4, lora_alpha=12))
    adapters = trainable(model.hf)
    random = torch.Generator().manual_seed(1)
    for parameter in adapters.values():
        parameter.data = torch.randn(parameter.shape, generator=random) / 10
    adapted = states(model)
    wrapper.merge_and_unload()
    after = model.hf.state_dict()
    assert after.keys() == before.keys()
    for name in linear_maps(model.hf):
        down, up = (part for adapter, part in adapters.items() if adapter.startswith(f"{name}.lora_"))
        merged = before[f"{name}.weight"] + 3 * up @ down
        torch.testing.assert_close(after[f"{name}.weight"], merged, rtol=SINGLE, atol=SINGLE)
    torch.testing.assert_close(states(model), adapted, **STATES)
    assert not any(isinstance(each, nn.Linear) and type(each) is not nn.Linear for each in model.hf.modules())


def states(model: TranslationModel) -> torch.Tensor:
    sources, targets = zip(*SENTENCES[:3], strict=True)
    codec = model.codec
    return TorchEngine(model).teacher_forced(codec.encode_sources(sources), codec.encode_targets(targets)).hidden


def test_without_peft(tune: Tune, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(FinetuneError, match=r"pip install 'knnmt\[finetune\]'") as caught:
        tune(method="lora")
    assert str(caught.value).count("\n") == 0
    tune(method="full", max_updates=1)
    assert out.exists()
