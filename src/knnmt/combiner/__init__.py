"""How much to trust the neighbours: one file a method, one table, one place that mixes."""

from knnmt.combiner.adaptive import Adaptive
from knnmt.combiner.base import Combiner
from knnmt.combiner.combination import Combination
from knnmt.combiner.inputs import first_of_its_value
from knnmt.combiner.mixture import log_p_knn, log_shares_of_both, mix_logits, mixture_log_p
from knnmt.combiner.needs import Needs
from knnmt.combiner.observation import NEVER, Observation, observe, observe_with
from knnmt.combiner.registry import BASE, METHODS, Default, default_of, is_leaked, load_combiner, read_config
from knnmt.combiner.robust import PARTS, PRESETS, Robust
from knnmt.combiner.trained import Trained
from knnmt.combiner.vanilla import Vanilla

__all__ = [
    "BASE",
    "METHODS",
    "NEVER",
    "PARTS",
    "PRESETS",
    "Adaptive",
    "Combination",
    "Combiner",
    "Default",
    "Needs",
    "Observation",
    "Robust",
    "Trained",
    "Vanilla",
    "default_of",
    "first_of_its_value",
    "is_leaked",
    "load_combiner",
    "log_p_knn",
    "log_shares_of_both",
    "mix_logits",
    "mixture_log_p",
    "observe",
    "observe_with",
    "read_config",
]
