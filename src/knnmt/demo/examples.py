"""Select translations of the test set to show."""

from typing import Any

from knnmt.evaluation import sentence_chrf

_LONGEST = 18  # words of a reference that fits into one or two lines

Example = dict[str, str]


def differing(evaluation: dict[str, Any], count: int = 5) -> list[Example]:
    """The first readable examples whose base and robust translations differ; they are not selected by quality."""
    return [example for example in _readable(evaluation) if example["base"] != example["robust"]][:count]


def clearest(evaluation: dict[str, Any]) -> Example:
    """The example of `differing` that the memory improves most."""
    examples = differing(evaluation) or _readable(evaluation)
    return max(examples, key=lambda each: _chrf(each, "robust") - _chrf(each, "base"))


def worst(evaluation: dict[str, Any]) -> Example:
    """The readable example whose robust translation is farthest from the reference: the demo teaches it."""
    return min(_readable(evaluation), key=lambda each: _chrf(each, "robust"))


def _readable(evaluation: dict[str, Any]) -> list[Example]:
    """Short sentences without digits; all sentences if there are none."""
    translations = evaluation["translations"]
    columns = (evaluation["sources"], evaluation["references"], translations["base"], translations["robust"])
    names = ("source", "reference", "base", "robust")
    examples = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return [each for each in examples if _is_readable(each)] or examples


def _is_readable(example: Example) -> bool:
    return len(example["reference"].split()) <= _LONGEST and not any(map(str.isdigit, example["source"]))


def _chrf(example: Example, system: str) -> float:
    return sentence_chrf(example[system], example["reference"])
