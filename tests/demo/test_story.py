"""The whole story with a tiny model and two small wheels, told at once, in pieces, and again."""

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from worlds import interrupt_after, quick_fit

from knnmt.datastore import Store
from knnmt.demo import Demo, story
from knnmt.demo.wheels import Wheel
from knnmt.errors import DemoError

MakeDemo = Callable[..., Demo]


@pytest.fixture
def make_demo(
    index: tuple[Wheel, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    family_directory: Callable[[str], Path],
) -> MakeDemo:
    monkeypatch.setattr(story, "fit", quick_fit)
    model = str(family_directory("marian"))
    return partial(Demo, tmp_path / "out", model, device="cpu", wheels=index)


def tell(demo: Demo, until: str = "lesson") -> dict[str, Any]:
    demo.open()
    for chapter in demo.chapters:
        demo.tell(chapter)
        if chapter.name == until:
            break
    return demo.story


def test_every_chapter_says_what_it_found(make_demo: MakeDemo) -> None:
    demo = make_demo()
    told = tell(demo)
    assert told["download"] == [wheel.file for wheel in demo.wheels]
    assert told["store"]["sentences"] == told["text"]["train"]
    assert [method["name"] for method in told["methods"]] == ["vanilla", "adaptive", "robust"]
    evaluation = told["evaluation"]
    assert list(evaluation["systems"]) == ["base", "vanilla", "adaptive", "robust"]
    assert evaluation["sentences"] == len(evaluation["sources"]) == told["text"]["test"]
    assert evaluation["leaked"] == 0
    explanation = told["explanation"]
    assert explanation["translation"] == explanation["robust"] != explanation["base"]
    assert all(len(token["neighbours"]) == 8 and token["nmt_top"] for token in explanation["tokens"])
    lesson = told["lesson"]
    assert lesson["source"] in evaluation["sources"]
    assert Store.open(demo.store).sentence_count == told["text"]["train"] + 1
    assert 0 < lesson["taught"] <= lesson["tokens"]
    assert set(told["seconds"]) == {chapter.name for chapter in demo.chapters}
    assert json.loads((demo.directory / "story.json").read_text()) == told


@pytest.mark.parametrize("broken", ["build", "fit", "evaluate", "explain"])
def test_interrupted_it_goes_on_from_what_is_there(
    broken: str, make_demo: MakeDemo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is pressed when a step is done for the first time and nothing is written down yet."""
    calls: dict[str, int] = {"build": 0, "fit": 0, "evaluate": 0, "explain": 0}

    def counted(name: str) -> Callable[..., Any]:
        run = getattr(story, name)

        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            result = run(*arguments, **options)
            if name == broken and calls[name] == 1:
                raise KeyboardInterrupt
            return result

        return call

    for name in calls:
        monkeypatch.setattr(story, name, counted(name))
    with pytest.raises(KeyboardInterrupt):
        tell(make_demo())
    told = tell(make_demo())
    again = {"build": 0, "fit": 0, "evaluate": 1, "explain": 1}  # what cannot be seen in the store is done again
    once = {"build": 2, "fit": 3, "evaluate": 1, "explain": 2}  # the store and the lesson; three methods
    assert calls == {name: once[name] + (again[name] if name == broken else 0) for name in calls}
    assert told["store"]["sentences"] == told["text"]["train"]
    assert Store.open(make_demo().store).sentence_count == told["text"]["train"] + 1


def test_interrupted_training_stops_the_demo_and_is_done_again(
    make_demo: MakeDemo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as while_it_trains:
        interrupt_after(while_it_trains, 12)
        with pytest.raises(KeyboardInterrupt):
            tell(make_demo())
    assert set(Store.open(make_demo().store).combiners) == {"vanilla", "adaptive"}
    told = tell(make_demo(), until="methods")
    assert [method["record"]["training"]["updates_made"] for method in told["methods"][1:]] == [20, 20]


def test_told_again_nothing_is_done(make_demo: MakeDemo, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tell(make_demo())

    def never(*arguments: Any, **options: Any) -> None:
        raise AssertionError("this was done before")

    for name in ("fetch", "prepare", "build", "fit", "evaluate", "explain"):
        monkeypatch.setattr(story, name, never)
    assert tell(make_demo()) == told


def test_a_lesson_is_taught_once(make_demo: MakeDemo) -> None:
    demo = make_demo()
    tell(demo)
    kept = json.loads((demo.directory / "story.json").read_text())
    del kept["lesson"]  # as if killed between the build and what is written down
    (demo.directory / "story.json").write_text(json.dumps(kept))
    sentences = Store.open(demo.store).sentence_count
    assert tell(make_demo())["lesson"]["taught"] > 0
    assert Store.open(demo.store).sentence_count == sentences


def test_what_does_not_fit_is_told(
    make_demo: MakeDemo, family_directory: Callable[[str], Path], tmp_path: Path
) -> None:
    demo = make_demo()
    tell(demo, until="text")
    other = make_demo(wheels=demo.wheels[:1])
    with pytest.raises(DemoError, match="holds a demo of another model, text or version of knnmt; remove it"):
        other.open()
    with pytest.raises(DemoError, match="holds a demo of another model"):
        make_demo(options={"source_prefix": "x"}).open()
    kept = json.loads((demo.directory / "story.json").read_text())
    del kept["seconds"]
    for damaged in ("{", "null", "[]", "{}", "[" * 100_000, json.dumps(kept), json.dumps(kept | {"seconds": None})):
        (demo.directory / "story.json").write_text(damaged)
        with pytest.raises(DemoError, match=r"story\.json cannot be read; remove \S+/marian, or give another --out"):
            make_demo().open()
    options = {"source_lang": "en", "target_lang": "de"}
    reverse = Demo(tmp_path / "other", str(family_directory("m2m100")), device="cpu", options=options)
    with pytest.raises(DemoError, match="translated into English, not de"):
        reverse.open()
    silent = Demo(tmp_path / "other", str(family_directory("t5")), device="cpu")
    with pytest.raises(DemoError, match="does not say its languages; give --source-lang and --target-lang"):
        silent.open()
    assert not (tmp_path / "other").exists()


def test_a_store_that_the_demo_knows_nothing_of_is_not_taken_for_its_own(make_demo: MakeDemo) -> None:
    """It may have been taught a sentence of the test."""
    demo = make_demo()
    tell(demo, until="store")
    (demo.directory / "story.json").unlink()
    with pytest.raises(DemoError, match=r"marian holds a store of which the demo knows nothing; remove it, or give"):
        make_demo().open()
    shutil.rmtree(demo.store)
    tell(make_demo(), until="store")


@pytest.mark.parametrize("gone", ["store", "text"])
def test_what_was_removed_is_made_again(make_demo: MakeDemo, gone: str) -> None:
    demo = make_demo()
    told = tell(demo, until="evaluation")
    shutil.rmtree(demo.directory / gone)
    again = tell(make_demo(), until="evaluation")
    assert again["text"] == told["text"]
    assert again["store"]["entries"] == told["store"]["entries"]
    assert Store.open(demo.store).sentence_count == told["text"]["train"]
    assert (demo.directory / "text" / "train.tsv").is_file()


def test_the_model_may_be_multilingual(make_demo: MakeDemo, family_directory: Callable[[str], Path]) -> None:
    options = {"source_lang": "deu_Latn", "target_lang": "eng_Latn"}
    demo = Demo(
        make_demo().directory.parent,
        str(family_directory("nllb")),
        device="cpu",
        options=options,
        wheels=make_demo().wheels,
    )
    assert tell(demo, until="text")["text"]["test"] == 8
    assert "--source-lang deu_Latn --target-lang eng_Latn" in demo.chapters[2].commands[0]


def commands(demo: Demo) -> Iterator[str]:
    return (command for chapter in demo.chapters for command in chapter.commands)


def test_the_commands_shown_are_the_projects_own() -> None:
    from typer.main import get_command

    from knnmt.cli.main import app

    known = get_command(app).commands  # type: ignore[attr-defined]
    demo = Demo("my demos", "some/model")
    for command in commands(demo):
        program, verb, store, *arguments = shlex.split(command)
        assert store == "my demos/model/store"
        assert program == "knnmt"
        flags = {flag for parameter in known[verb].params for flag in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("--")} <= flags
