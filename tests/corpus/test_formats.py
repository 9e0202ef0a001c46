from pathlib import Path

import pytest

from knnmt.corpus.formats import format_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("memory.tsv", "tsv"),
        ("memory.TSV.gz", "tsv"),
        ("memory.jsonl", "jsonl"),
        ("memory.jsonl.GZ", "jsonl"),
        ("train.de", "text"),
        ("train.de.gz", "text"),
        ("tsv", "text"),
        ("memory.tsv/train", "text"),
    ],
)
def test_the_extension_tells_the_format(name: str, expected: str) -> None:
    assert format_of(Path(name)).name == expected
