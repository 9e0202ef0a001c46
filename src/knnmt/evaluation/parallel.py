"""Input checks of all metrics."""

from collections.abc import Mapping, Sequence

from knnmt.errors import EvaluationError


def check_parallel(hypotheses: Mapping[str, Sequence[str]], references: Sequence[str]) -> None:
    """Raise `EvaluationError` if there is nothing to score, or a system does not have one translation per reference."""
    if not hypotheses or not references:
        raise EvaluationError("There is nothing to evaluate: give at least one system and one sentence pair.")
    for name, translations in hypotheses.items():
        if len(translations) != len(references):
            raise EvaluationError(
                f"The system {name} has {len(translations)} translations for {len(references)} references: "
                "give one for each."
            )
