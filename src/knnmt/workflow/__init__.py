"""The public functions, such as `build`, `fit` and `evaluate`; each uses several of the other packages."""

from knnmt.workflow.building import BuildReport, build, build_with_report
from knnmt.workflow.choosing import forget, use
from knnmt.workflow.collecting import collect
from knnmt.workflow.describing import info
from knnmt.workflow.evaluating import Evaluation, Run, evaluate, run_systems, score_runs
from knnmt.workflow.fitting import FitReport, fit, fit_method, keep
from knnmt.workflow.session import Session
from knnmt.workflow.verifying import verify
from knnmt.workflow.viewing import make_view

__all__ = [
    "BuildReport",
    "Evaluation",
    "FitReport",
    "Run",
    "Session",
    "build",
    "build_with_report",
    "collect",
    "evaluate",
    "fit",
    "fit_method",
    "forget",
    "info",
    "keep",
    "make_view",
    "run_systems",
    "score_runs",
    "use",
    "verify",
]
