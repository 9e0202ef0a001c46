"""Fine-tuning of a translation model, with all weights or with low-rank adapters, to compare with."""

from knnmt.finetuning.recipe import METHODS, FinetuneRecipe
from knnmt.finetuning.report import FinetuneReport, Validation
from knnmt.finetuning.tuning import finetune

__all__ = ["METHODS", "FinetuneRecipe", "FinetuneReport", "Validation", "finetune"]
