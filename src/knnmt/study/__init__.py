"""The paper's experiments, and some more, on any model and benchmark of the same form."""

from knnmt.study.benchmark import Benchmark, Domain, Split
from knnmt.study.plan import Plan, PlannedStep
from knnmt.study.run import Run
from knnmt.study.studies import STUDIES, DomainStudy, Study

__all__ = ["STUDIES", "Benchmark", "Domain", "DomainStudy", "Plan", "PlannedStep", "Run", "Split", "Study"]
