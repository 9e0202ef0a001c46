"""The methods, one file per method, and their table."""

from knnmt.methods.adaptive import Adaptive, AdaptiveMethod
from knnmt.methods.default import Default, default_of, is_leaked, no_combiner
from knnmt.methods.evidence import Evidence, EvidenceMethod
from knnmt.methods.method import FitTable, Fitted, Fitting, Method
from knnmt.methods.registry import (
    BASE,
    combiner_of_method,
    load_combiner,
    method_named,
    method_with,
    methods,
    read_combiner,
    register,
    usable_combiner,
)
from knnmt.methods.robust import Robust, RobustMethod
from knnmt.methods.trained import TrainedMethod
from knnmt.methods.vanilla import Vanilla, VanillaMethod

__all__ = [
    "BASE",
    "Adaptive",
    "AdaptiveMethod",
    "Default",
    "Evidence",
    "EvidenceMethod",
    "FitTable",
    "Fitted",
    "Fitting",
    "Method",
    "Robust",
    "RobustMethod",
    "TrainedMethod",
    "Vanilla",
    "VanillaMethod",
    "combiner_of_method",
    "default_of",
    "is_leaked",
    "load_combiner",
    "method_named",
    "method_with",
    "methods",
    "no_combiner",
    "read_combiner",
    "register",
    "usable_combiner",
]
