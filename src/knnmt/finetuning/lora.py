"""Low-rank adapters of a model, by peft."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from knnmt.errors import FinetuneError
from knnmt.finetuning.recipe import FinetuneRecipe


def check_peft() -> None:
    """Raise `FinetuneError` if peft is not installed."""
    if find_spec("peft") is None:
        raise FinetuneError("LoRA needs peft: run `pip install 'knnmt[finetune]'`, or use the method full.")


def linear_maps(model: Any) -> list[str]:
    """The names of the attention and feed-forward linear maps in the layers of encoder and decoder."""
    stacks = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and any(name.startswith(f"{stack}.") for stack in stacks)
    ]


def add_adapters(model: Any, recipe: FinetuneRecipe) -> Any:
    """Add adapters to the model in place, and freeze everything else. Returns peft's wrapper of the model."""
    check_peft()
    peft: Any = import_module("peft")  # slow to import, and optional
    config = peft.LoraConfig(
        r=recipe.lora_rank,
        lora_alpha=recipe.lora_alpha,
        lora_dropout=recipe.lora_dropout,
        target_modules=linear_maps(model),
    )
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        return peft.get_peft_model(model, config)


def merge_adapters(wrapper: Any) -> Any:
    """Add the adapters to the weights. Returns the model, which is as it was before `add_adapters` otherwise."""
    return wrapper.merge_and_unload()
