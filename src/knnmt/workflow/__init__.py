"""The verbs: each needs several rooms of the house."""

from knnmt.workflow.build import BuildReport, build, build_with_report
from knnmt.workflow.collect import collect
from knnmt.workflow.combiners import forget, use
from knnmt.workflow.evaluate import Evaluation, evaluate
from knnmt.workflow.fit import FitReport, fit, fit_method, keep
from knnmt.workflow.info import info
from knnmt.workflow.verify import verify

__all__ = [
    "BuildReport",
    "Evaluation",
    "FitReport",
    "build",
    "build_with_report",
    "collect",
    "evaluate",
    "fit",
    "fit_method",
    "forget",
    "info",
    "keep",
    "use",
    "verify",
]
