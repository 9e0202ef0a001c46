"""Which translations of the test set are worth a look."""

from typing import Any

from knnmt.evaluation import sentence_chrf

_LONGEST = 18  # words of a reference that fits on a line or two

Example = dict[str, str]


def differing(evaluation: dict[str, Any], count: int = 5) -> list[Example]:
    """The first readable ones whose base and robust translations differ; not the best, just the first."""
    return [example for example in _readable(evaluation) if example["base"] != example["robust"]][:count]


def clearest(evaluation: dict[str, Any]) -> Example:
    """The one of them that the memory helps most."""
    examples = differing(evaluation) or _readable(evaluation)
    return max(examples, key=lambda each: _chrf(each, "robust") - _chrf(each, "base"))


def worst(evaluation: dict[str, Any]) -> Example:
    """The one in which robust is farthest from the reference: there is something to teach."""
    return min(_readable(evaluation), key=lambda each: _chrf(each, "robust"))


def _readable(evaluation: dict[str, Any]) -> list[Example]:
    """Sentences of a line or two, without the numbers of addresses and examples; all, where there are none."""
    translations = evaluation["translations"]
    columns = (evaluation["sources"], evaluation["references"], translations["base"], translations["robust"])
    names = ("source", "reference", "base", "robust")
    examples = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return [each for each in examples if _is_readable(each)] or examples


def _is_readable(example: Example) -> bool:
    return len(example["reference"].split()) <= _LONGEST and not any(sign.isdigit() for sign in example["source"])


def _chrf(example: Example, system: str) -> float:
    return sentence_chrf(example[system], example["reference"])
