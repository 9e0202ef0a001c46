"""The steps that studies are made of, one kind of work per file."""

from knnmt.study.steps.features import Collect, CollectContext, Judge, Mix
from knnmt.study.steps.finetune import Finetune
from knnmt.study.steps.fit import Fit
from knnmt.study.steps.memories import Build, Memory, View
from knnmt.study.steps.translate import Comet, Compare, Model, System, Translate

__all__ = [
    "Build",
    "Collect",
    "CollectContext",
    "Comet",
    "Compare",
    "Finetune",
    "Fit",
    "Judge",
    "Memory",
    "Mix",
    "Model",
    "System",
    "Translate",
    "View",
]
