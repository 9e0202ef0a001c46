"""Tune the length penalty of a fitted combiner by BLEU on dev sentences; translations at 0.6 are often too short."""

from dataclasses import replace

from knnmt.decoding import Settings
from knnmt.decoding.settings import PAPER_PENALTY
from knnmt.methods import FitTable, Fitted
from knnmt.workflow.session import Session

SENTENCES = 200  # dev sentences that are translated with each penalty
_STEP, _LARGEST = 0.4, 3.0


def with_tuned_length_penalty(fitted: Fitted, session: Session, settings: Settings | None = None) -> Fitted:
    """The same with the best length penalty in the combiner's record, and a table of what was tried.

    Penalties are tried upwards from the paper's in steps of 0.4, or downwards if the first step up is worse, as long as
    BLEU rises. The session needs dev pairs.
    """
    tried: dict[float, float] = {}

    def bleu(penalty: float) -> float:
        if penalty not in tried:
            asked = replace(settings or Settings(), length_penalty=penalty)
            tried[penalty] = session.bleu(asked, fitted.combiner, SENTENCES)
        return tried[penalty]

    best = PAPER_PENALTY
    for step in (_STEP, -_STEP):
        while abs(best + step) <= _LARGEST and bleu(round(best + step, 1)) > bleu(best):
            best = round(best + step, 1)
        if best != PAPER_PENALTY:
            break
    order = sorted(tried)
    table = FitTable(
        f"Length penalty ({min(SENTENCES, len(session.pairs))} dev sentences)",
        ["penalty", "BLEU"],
        [[f"{penalty:g}", f"{tried[penalty]:.2f}"] for penalty in order],
        chosen=(order.index(best), 1),
    )
    fitted.combiner.record["length_penalty"] = best
    found = {"length_penalty": best, "length_penalties": [{"penalty": each, "bleu": tried[each]} for each in order]}
    return replace(fitted, findings=fitted.findings | found, tables=[*fitted.tables, table])
