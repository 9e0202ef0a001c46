"""How much to trust the neighbours: `Observation` in, `Combination` out, and the mixture of both distributions."""

from knnmt.combiner.base import Combiner
from knnmt.combiner.combination import Combination, behind_nearest, log_shares
from knnmt.combiner.inputs import first_of_its_value
from knnmt.combiner.mixture import log_p_knn, log_shares_of_both, mix_logits, mixture_log_p
from knnmt.combiner.needs import CONTEXT, Needs
from knnmt.combiner.observation import LOG_ZERO, Observation, observe
from knnmt.combiner.trained import Trained

__all__ = [
    "CONTEXT",
    "LOG_ZERO",
    "Combination",
    "Combiner",
    "Needs",
    "Observation",
    "Trained",
    "behind_nearest",
    "first_of_its_value",
    "log_p_knn",
    "log_shares",
    "log_shares_of_both",
    "mix_logits",
    "mixture_log_p",
    "observe",
]
