"""Low-rank adapters of a model, by peft."""

from importlib import import_module
from typing import Any

import torch
from torch import nn

from knnmt.errors import FinetuneError
from knnmt.finetuning.recipe import FinetuneRecipe


def import_peft() -> Any:
    """The module peft, which is optional and slow to import."""
    try:
        return import_module("peft")
    except ImportError as error:
        raise FinetuneError(
            f"LoRA needs peft ({error}): run `pip install 'knnmt[finetune]'`, or use the method full."
        ) from error


def linear_maps(model: Any) -> list[str]:
    """The names of the attention and feed-forward linear maps in the layers of encoder and decoder."""
    stacks = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and any(name.startswith(f"{stack}.") for stack in stacks)
    ]


def add_adapters(model: Any, recipe: FinetuneRecipe) -> Any:
    """Add adapters to the model in place, and freeze everything else. Returns peft's wrapper of the model.

    `wrapper.merge_and_unload()` adds the adapters to the weights, and leaves the model as it was otherwise.
    """
    peft = import_peft()
    config = peft.LoraConfig(r=recipe.lora_rank, lora_alpha=recipe.lora_alpha, target_modules=linear_maps(model))
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        return peft.get_peft_model(model, config)
