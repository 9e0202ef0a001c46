"""What commands answer: JSON and nothing else for programs, a few lines for people."""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentences import SENTENCES
from tolerances import NLL

from knnmt.datastore import Store

Run = Callable[..., Any]
MEMORY, DEV, TEST = ("memory.de", "memory.en"), ("dev.de", "dev.en"), ("test.de", "test.en")


@pytest.fixture
def run_json(run: Run, world: Path) -> Callable[..., Any]:
    """What a command that goes well writes, read strictly."""

    def command(*arguments: str) -> Any:
        result = run(*arguments, "--json")
        assert result.code == 0, result.err
        assert result.complaints == []
        return json.loads(result.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return command


def test_build(run_json: Callable[..., Any], model_name: str) -> None:
    value = run_json("build", "new", *MEMORY, "--model", model_name, "--limit", "7", "--origin", "mine")
    store = Store.open("new")
    assert value["added"] == {
        "entries": store.entry_count,
        "pairs": store.entry_count,
        "sentences": 7,
        "resumed": 0,
        "too_long": 0,
        "empty": 0,
        "known": 0,
    }
    assert value["store"]["entries"] == value["store"]["pairs"] == store.entry_count
    assert value["store"] == run_json("info", "new")
    more = run_json("build", "new", *MEMORY, "--limit", "9")
    assert more["added"]["known"] == 7
    assert more["store"]["sentences"] == 9


def test_fit(run_json: Callable[..., Any]) -> None:
    value = run_json(
        *("fit", "store", *DEV, "--method", "vanilla", "--name", "mine", "--k", "2"),
        *("--decode-best", "2", "--decode-sentences", "1"),
    )
    assert (value["name"], value["method"], value["k"]) == ("mine", "vanilla", 2)
    assert {(place["k"], place["lambda"], place["temperature"]) for place in value["bleu"]} <= {
        (place["k"], place["lambda"], place["temperature"]) for place in value["grid"]
    }
    assert len(value["bleu"]) == 2
    assert min(place["nll"] for place in value["grid"]) <= value["nll"] + NLL
    assert value["leaked"] == 0
    kept = {combiner["name"]: combiner for combiner in run_json("info", "store")["combiners"]}
    assert set(kept) == {"mine", "vanilla"}
    assert all(kept["mine"][name] == value[name] for name in ("k", "lambda", "temperature"))


def test_evaluate(run_json: Callable[..., Any]) -> None:
    methods = ("--methods", "base, vanilla", "--baseline", "vanilla", "--beam", "2", "--limit", "2")
    value = run_json("evaluate", "store", *TEST, *methods)
    assert list(value["systems"]) == ["base", "vanilla"]
    assert value["significance"]["baseline"] == "vanilla"
    assert value["sentences"] == 2
    assert "beam:2" in value["signature"]["vanilla"]
    assert "split:no" in value["signature"]["vanilla"]


def test_people_see_what_was_done(run: Run, world: Path, model_name: str) -> None:
    Path("some.tsv").write_text(
        "source\ttarget\n"
        + "".join(f"{source}\t{target}\n" for source, target in [*SENTENCES[:3], ("Haus " * 400, "house"), ("", "a")]),
        encoding="utf-8",
    )
    place = "my [bold]store[/bold]"  # no markup
    built = run("build", place, "some.tsv", "--model", model_name)
    assert built.code == 0, built.err
    assert "entries of 3 sentence pairs" in built.out
    assert f"in {place}" in built.out
    assert "warning: 1 sentence pairs are longer than the model takes and were left out." in built.err
    assert "warning: 1 lines have an empty side and were left out." in built.err
    assert "warning: 1 header line was left out." in built.err
    assert f"next: knnmt fit '{place}' DEV" in built.err
    for side, language in enumerate(("de", "en")):
        text = Path(f"dev.{language}").read_text(encoding="utf-8") + SENTENCES[0][side]
        Path(f"leak.{language}").write_text(f"{text}\n", encoding="utf-8")
    leak = ("leak.de", "leak.en")
    fitted = run("fit", place, *leak, "--method", "vanilla", "--decode-best", "0", "--k", "2")
    assert fitted.code == 0, fitted.err
    assert "kept as" in fitted.out
    assert "λ 0.1" in fitted.out
    assert "dev sentences are in the store" in fitted.err
    evaluated = run("evaluate", place, *leak, "--beam", "1", "--limit", "5")
    assert evaluated.code == 0, evaluated.err
    assert "BLEU|nrefs:1" in evaluated.out
    assert "4 test sentences are in the store" in evaluated.err
    shown = run("info", place)
    assert shown.code == 0, shown.err
    assert "vanilla: k 2" in shown.out
    for result in (built, fitted, evaluated, shown):
        assert result.complaints == []


def test_a_model_that_was_moved(run_json: Callable[..., Any], model_name: str) -> None:
    shutil.copytree(model_name, "here")
    manifest = json.loads(Path("store/manifest.json").read_text())
    manifest["model"]["id"] = "/gone/model"
    Path("store/manifest.json").write_text(json.dumps(manifest))
    fitted = run_json("fit", "store", *DEV, "--method", "vanilla", "--k", "2", "--decode-best", "0", "--model", "here")
    assert fitted["k"] == 2
    assert run_json("evaluate", "store", *TEST, "--limit", "1", "--beam", "1", "--model", "here")["sentences"] == 1
    assert run_json("build", "store", *TEST, "--model", "here")["added"]["sentences"] == 4


def test_commands_to_copy_are_quoted(run: Run, world: Path, model_name: str) -> None:
    place = "my store's"
    quoted = shlex.quote(place)
    built = run("build", place, "memory.de", "memory.en", "--model", model_name)
    assert f"next: knnmt fit {quoted} DEV\n" in built.err
    assert f"run `knnmt fit {quoted} DEV` first" in run("translate", place, stdin="Der Hund.\n").err
    unknown = run("translate", place, "--method", "robust", stdin="Der Hund.\n")
    assert f"run `knnmt fit {quoted} DEV --method METHOD` first" in unknown.err
    fitted = run("fit", place, "dev.de", "dev.en", "--method", "vanilla", "--decode-best", "0", "--k", "4")
    assert f"next: knnmt translate {quoted} < FILE\n" in fitted.err
