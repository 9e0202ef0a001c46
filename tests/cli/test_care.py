"""`knnmt use`, `forget`, `verify`, and what `info` says of what is unusual."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knnmt.datastore import Store
from knnmt.datastore.cuts import ConfidenceCut
from knnmt.workflow import make_view

Run = Callable[..., Any]
DEV, MEMORY = ("dev.de", "dev.en"), ("memory.de", "memory.en")


@pytest.fixture
def two(run: Run, world: Path) -> Path:
    """The store, with a second combiner that is worse than the model alone."""
    assert run("fit", "store", *DEV, "--updates", "1", "--without", "dc", "--name", "ablation").code == 0
    return world / "store"


def default(run: Run) -> dict[str, str]:
    return dict(json.loads(run("info", "store", "--json").out)["default"])


def test_the_default_and_why(run: Run, two: Path) -> None:
    found = default(run)
    assert found["name"] == "vanilla"
    assert found["why"].startswith("lowest dev NLL of what was fitted: ")
    assert "default method  vanilla: lowest dev NLL" in " ".join(run("info", "store").out.split("\n"))


def test_use(run: Run, two: Path) -> None:
    result = run("use", "store", "ablation")
    assert (result.code, result.out) == (0, "")
    assert result.err == "store is now used with ablation: chosen with `knnmt use`.\n"
    assert default(run)["name"] == "ablation"
    assert run("translate", "store", "--beam", "1", stdin="Ja.\n").err.startswith("method:ablation|")
    assert json.loads(run("use", "store", "base", "--json").out)["default"]["name"] == "base"
    quiet = run("translate", "store", "--beam", "1", stdin="Ja.\n")
    assert quiet.err.startswith("method:base|"), "who chose it needs no warning"
    assert run("use", "store", "auto").code == 0
    assert default(run)["name"] == "vanilla"
    wrong = run("use", "store", "nobody")
    assert wrong.code == 2
    assert wrong.err == "knnmt: The store store has no combiner nobody (it has ablation, vanilla).\n"


def test_forget(run: Run, two: Path) -> None:
    assert run("use", "store", "ablation").code == 0
    result = run("forget", "store", "ablation")
    assert result.err == "ablation is removed; store is now used with vanilla.\n"
    assert set(Store.open(two).combiners) == {"vanilla"}
    assert default(run)["name"] == "vanilla"
    assert run("forget", "store", "ablation").code == 2
    assert run("fit", "store", *DEV, "--name", "auto").code == 2, "the word means something to `use`"


def test_a_fit_that_is_not_kept_says_so(run: Run, world: Path) -> None:
    options = ("--method", "adaptive", "--updates", "1", "--name", "vanilla")
    before = Store.open("store").manifest
    result = run("fit", "store", *MEMORY, *options)
    assert result.code == 0
    assert "warning: not kept: the vanilla that the store has is better on these pairs (NLL " in result.err
    assert "--force replaces it, --name keeps both." in result.err
    assert Store.open("store").manifest == before
    value = json.loads(run("fit", "store", *MEMORY, *options, "--force", "--json").out)
    assert value["kept"] is True
    assert value["previous_nll"] < value["nll"]
    assert Store.open("store").manifest != before


def test_a_fit_that_is_worse_than_the_model_alone_says_so(run: Run, world: Path) -> None:
    result = run("fit", "store", *DEV, "--updates", "1", "--name", "bad", "--scale", "1e-3")
    assert result.code == 0
    assert "warning: bad is worse than the model alone, so it is used only if it is named." in result.err


def test_verify(run: Run, world: Path) -> None:
    sound = run("verify", "store")
    assert (sound.code, sound.out, sound.err) == (0, "", "store is sound.\n")
    assert json.loads(run("verify", "store", "--json").out) == {"ok": True, "problems": []}
    config = Store.open("store").combiners["vanilla"] / "config.json"
    config.write_text(config.read_text().replace("vanilla", "vanjlla"))
    damaged = run("verify", "store")
    assert damaged.code == 2
    assert "config.json is damaged" in damaged.out.replace("\n", " ")
    assert damaged.err == "store is not sound, or could not be read.\n"
    value = json.loads(run("verify", "store", "--json").out)
    assert value["ok"] is False
    assert len(value["problems"]) == 1
    missing = run("verify", "nothing")
    assert missing.code == 2
    assert missing.err.startswith("knnmt: There is no store at nothing")


def test_one_combiner_that_cannot_be_used(run: Run, two: Path) -> None:
    (Store.open(two).combiners["ablation"] / "config.json").write_text('{"method": "of the future"}')
    value = json.loads(run("info", "store", "--json").out)
    problems = {each["name"]: each.get("problem") for each in value["combiners"]}
    assert problems["vanilla"] is None
    assert "unknown here; upgrade" in problems["ablation"]
    assert value["default"]["unusable"] == ["ablation"]
    assert "cannot be used: The combiner ablation is of the method of the future" in run("info", "store").out
    first, second = run("translate", "store", "--beam", "1", stdin="Ja.\n").err.splitlines()
    assert first == "warning: ablation cannot be used, see `knnmt info store`."
    assert second.startswith("method:vanilla|")
    refused = run("use", "store", "ablation")
    assert refused.code == 2
    assert "unknown here; upgrade" in refused.err


def test_a_combiner_directory_without_permission(run: Run, two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads everything, so the refusal is made here."""
    directory = str(Store.open(two).combiners["ablation"])
    opened = os.open

    def refused(name: Any, *arguments: Any, **options: Any) -> int:
        if str(name) == directory:
            raise PermissionError(13, "Permission denied", directory)
        return opened(name, *arguments, **options)

    monkeypatch.setattr(os, "open", refused)
    assert Store.open(two).combiners


def test_a_choice_that_is_not_there(run: Run, two: Path) -> None:
    manifest = json.loads((two / "manifest.json").read_text())
    (two / "manifest.json").write_text(json.dumps(manifest | {"default": "ghost"}))
    assert "to be used with ghost, which it does not have" in run("verify", "store", "--json").out


def test_a_fit_on_pairs_of_the_store_does_not_win(run: Run, world: Path) -> None:
    """It looks best on them, because it trusts the store in everything."""
    options = ("--method", "vanilla", "--decode-best", "0", "--name", "honest")
    assert run("fit", "store", *DEV, *options).code == 0
    result = run("fit", "store", *MEMORY, *options)
    assert "not kept: the honest that the store has was fitted on pairs that are not in the store" in result.err
    combiners = json.loads(run("info", "store", "--json").out)["combiners"]
    assert {each["name"]: each["record"]["leaked"] for each in combiners} == {"vanilla": 38, "honest": 0}
    assert default(run)["name"] == "vanilla", "honest is worse than the model alone here"
    assert default(run)["why"].endswith("; its dev pairs were in the store")


def test_info_of_a_store_whose_index_is_lost(run: Run, world: Path) -> None:
    assert run("build", "store", "--index", "ivf").code == 0
    index = Store.open("store").index_directory
    assert index is not None
    (index / "fastscan.faiss").unlink()
    value = json.loads(run("info", "store", "--json").out)
    assert "fastscan.faiss is missing" in value["search"]["problems"][0]
    shown = run("info", "store")
    assert shown.code == 0
    assert "warning: " in shown.err
    assert "fastscan.faiss is missing" in shown.err
    mapped = run("translate", "store", "--beam", "1", "--in-memory", stdin="Ja.\n")
    assert mapped.code == 0
    assert "fastscan.faiss is missing" in mapped.err
    (index / "config.json").unlink()
    value = json.loads(run("info", "store", "--json").out)
    assert "is missing" in value["search"]["problems"][0]
    assert value["entries"] == Store.open("store").entry_count


def test_info_lists_views(run: Run, world: Path) -> None:
    assert "│" not in run("info", "store").out, "a store without views shows no table"
    unsure = make_view("store", "unsure", ConfidenceCut(0.0, 0.6), "ivf")
    make_view("store", "sure", ConfidenceCut(0.6, 1.0))
    (sure, _) = views = json.loads(run("info", "store", "--json").out)["views"]
    assert [each["name"] for each in views] == ["sure", "unsure"]
    shown = run("info", "store")
    rows = [line.replace("│", " ").split() for line in shown.out.splitlines()]
    assert ["sure", f"{sure['entries']:,}", str(sure["sentences"]), "Flat", "1.000", str(sure["bytes"]), "B"] in rows
    assert ["unsure", str(unsure.entry_count)] in [row[:2] for row in rows]
    assert shown.complaints == []
    mask = unsure.path / unsure.manifest.views["unsure"].mask.directory / f"{unsure.segments[0].name}.npy"
    mask.unlink()
    shown = run("info", "store")
    assert f"warning: {mask} is missing; make the view again, or remove it." in shown.err
    assert ["unsure", "?", "?", "?"] in [line.replace("│", " ").split()[:4] for line in shown.out.splitlines()]


def test_duplicates(run: Run, world: Path) -> None:
    entries = Store.open("store").entry_count
    result = run("build", "store", *MEMORY)
    assert "warning: 38 sentence pairs were in the store already and were left out." in result.err
    assert Store.open("store").entry_count == entries
    result = run("build", "store", *MEMORY, "--keep-duplicates")
    assert "warning: 38 sentence pairs were in the store already and are now there again." in result.err
    assert Store.open("store").entry_count == 2 * entries
