import random
import re

import pytest

from knnmt.demo.twins import CONTAINED, TWINS, TwinFinder


def naive(texts: list[str], index: int) -> bool:
    words = [set(re.findall("[a-zäöüß]+", text.lower())) for text in texts]
    mine = words[index]
    others = [other for i, other in enumerate(words) if i != index]
    near = any(len(mine & other) / len(mine | other) >= TWINS for other in others if mine | other)
    within = any(len(mine & other) >= CONTAINED * len(mine) for other in others)
    return not mine or near or within


def test_twins_agree_with_comparing_all_with_all() -> None:
    rng = random.Random(5)
    vocabulary = [chr(97 + i) * 3 for i in range(20)]
    texts = [" ".join(rng.choices(vocabulary, k=rng.randint(1, 9))) for _ in range(150)]
    finder = TwinFinder(texts)
    found = [finder.has_twin(i) for i in range(len(texts))]
    assert found == [naive(texts, i) for i in range(len(texts))]
    assert 10 < sum(found) < 140


@pytest.mark.parametrize(
    ("text", "twin"),
    [
        ("Delete the order number 5 now", True),
        ("DELETE the order – number 17, now!", True),
        ("Delete the order now", True),
        ("else is here", True),
        ("Cancel all tickets today", False),
        ("12345", True),
    ],
)
def test_numbers_signs_and_case_do_not_count(text: str, twin: bool) -> None:
    others = ["Delete the order number 9 now", "Something else entirely is here"]
    assert TwinFinder([text, *others]).has_twin(0) == twin
