from typing import Any

from knnmt.demo.examples import clearest, differing, worst

LONG = " ".join(["word"] * 30)


def evaluation(*rows: tuple[str, str, str, str]) -> dict[str, Any]:
    sources, references, base, robust = map(list, zip(*rows, strict=True))
    return {"sources": sources, "references": references, "translations": {"base": base, "robust": robust}}


def sources(examples: list[dict[str, str]]) -> list[str]:
    return [example["source"] for example in examples]


def test_the_first_readable_ones_that_differ() -> None:
    found = evaluation(
        ("same", "the dog", "a dog", "a dog"),
        ("long", LONG, "a", "b"),
        ("room 5", "room 5", "a", "b"),
        ("worse", "the dog", "the dog", "a cat"),
        ("better", "the dog sleeps", "a cat", "the dog sleeps"),
        ("slightly", "the dog sleeps", "the cat", "the dog"),
        ("bad", "the dog sleeps", "xyz", "q"),
    )
    assert sources(differing(found)) == ["worse", "better", "slightly", "bad"]
    assert sources(differing(found, 2)) == ["worse", "better"]
    assert clearest(found)["source"] == "better"
    assert worst(found)["source"] == "bad"


def test_there_is_always_something_to_show() -> None:
    unreadable = evaluation(("1", LONG, "a", "b"), ("2", LONG, LONG, LONG))
    assert sources(differing(unreadable)) == ["1"]
    assert worst(unreadable)["source"] == "1"
    alike = evaluation(("a", "the dog", "a dog", "a dog"))
    assert differing(alike) == []
    assert clearest(alike)["source"] == "a"
