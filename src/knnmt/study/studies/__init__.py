"""The studies, one file each, and their table."""

from knnmt.study.studies.ablation import Ablation
from knnmt.study.studies.confidence import Confidence
from knnmt.study.studies.evidence import Evidence
from knnmt.study.studies.evidence_limits import EvidenceLimits
from knnmt.study.studies.finetune import FineTune
from knnmt.study.studies.lambdas import Lambdas
from knnmt.study.studies.main import Main
from knnmt.study.studies.neighbours import Neighbours
from knnmt.study.studies.offdomain import OffDomain
from knnmt.study.studies.pruning import Pruning
from knnmt.study.studies.quantised import Quantised
from knnmt.study.studies.study import DomainStudy, Results, Study

# in the order of a report
STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Main(),
        Confidence(),
        Lambdas(),
        Pruning(),
        Neighbours(),
        Ablation(),
        Quantised(),
        Evidence(),
        EvidenceLimits(),
        OffDomain(),
        FineTune(),
    )
}

__all__ = ["STUDIES", "DomainStudy", "Results", "Study"]
