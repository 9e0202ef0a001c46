"""How much to trust the neighbours: one file a method, one table, one place that mixes."""

from knnmt.combiner.base import Combiner
from knnmt.combiner.combination import Combination, Observation, observe
from knnmt.combiner.mixture import mix_logits, mixture_log_p, token_weights
from knnmt.combiner.registry import BASE, METHODS, default_name, load_combiner
from knnmt.combiner.vanilla import Vanilla

__all__ = [
    "BASE",
    "METHODS",
    "Combination",
    "Combiner",
    "Observation",
    "Vanilla",
    "default_name",
    "load_combiner",
    "mix_logits",
    "mixture_log_p",
    "observe",
    "token_weights",
]
