"""`knnmt fit` of networks: options in, JSON or a few lines out, warnings on standard error whatever the form."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentences import SENTENCES
from tolerances import NLL
from worlds import interrupt_after

from knnmt.datastore import Store
from knnmt.model import TranslationModel

Run = Callable[..., Any]
DEV = ("dev.de", "dev.en")
QUICK = ("--updates", "30", "--validate-from", "10", "--validate-every", "10", "--device", "cpu")
KEYS = {
    "name",
    "kept",
    "previous_nll",
    "method",
    "k",
    "scale",
    "temperature",
    "nll",
    "base_nll",
    "mean_lambda",
    "gold_in_k",
}
KEYS |= {"median_nearest", "self_trained", "leaked", "skipped", "training"}
# of each option another value than by default, and where the training's record has it
RECIPE = {
    "seed": 5,
    "updates": 12,
    "batch-sentences": 2,
    "learning-rate": 0.002,
    "adam-eps": 1e-6,
    "clip": 0.5,
    "label-smoothing": 0.01,
    "validate-from": 4,
    "validate-every": 3,
    "patience": 2,
    "alpha": 0.5,
    "beta": 20.0,
    "sigma": 0.02,
}


@pytest.fixture
def fit_json(run: Run, world: Path) -> Callable[..., Any]:
    def command(*arguments: str) -> Any:
        result = run("fit", "store", *arguments, "--json")
        assert result.code == 0, result.err
        assert result.complaints == []
        return json.loads(result.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return command


@pytest.fixture
def leak(world: Path) -> tuple[str, str]:
    """The dev files with two sentences of the store among them."""
    for side, language in enumerate(("de", "en")):
        more = "".join(f"{SENTENCES[number][side]}\n" for number in (12, 30))
        Path(f"leak.{language}").write_text(Path(f"dev.{language}").read_text("utf-8") + more, "utf-8")
    return "leak.de", "leak.en"


@pytest.mark.parametrize("method", ["robust", "adaptive"])
def test_json(fit_json: Callable[..., Any], method: str) -> None:
    value = fit_json(*DEV, *QUICK, "--method", method)
    own = {"robust": {"top", "dc", "wp", "without"}, "adaptive": {"hidden"}}[method]
    assert set(value) == KEYS | own
    assert (value["name"], value["method"], value["k"]) == (method, method, 8)
    assert value["self_trained"] is False
    assert (value["leaked"], value["skipped"]) == (0, 0)
    assert value["scale"] == pytest.approx(value["median_nearest"] / 10)
    assert 0 < value["mean_lambda"] < 1
    assert value["nll"] > 0
    training = value["training"]
    assert [update for update, _, _ in training["history"]] == [10, 20, 30]
    assert training["updates_made"] == 30
    assert min(nll for _, nll, _ in training["history"]) == pytest.approx(value["nll"], abs=NLL)


def test_the_default_method_is_robust(fit_json: Callable[..., Any], run: Run) -> None:
    assert fit_json(*DEV, "--updates", "1")["method"] == "robust"
    assert run("use", "store", "robust").code == 0
    assert run("translate", "store", "--beam", "1", "--max-length", "3", stdin="Der Hund.\n").err.startswith(
        "method:robust|"
    )


def test_every_option_of_training_reaches_it(fit_json: Callable[..., Any]) -> None:
    options = [text for name, value in RECIPE.items() for text in (f"--{name}", f"{value}")]
    value = fit_json(*DEV, *options, "--adam-betas", "0.8,0.9", "--exact-perturbation")
    training = value["training"]
    assert {name: training[name.replace("-", "_")] for name in RECIPE} == RECIPE
    assert training["adam_betas"] == [0.8, 0.9]
    assert training["exact_perturbation"] is True
    assert training["history"][0][0] == 4


def test_every_option_of_the_networks_reaches_them(fit_json: Callable[..., Any]) -> None:
    one = ("--updates", "1")
    names = ("--name", "mine", "--k", "4", "--top", "2", "--scale", "2.5", "--temperature", "paper")
    value = fit_json(*DEV, *one, *names, "--preset", "paper", "--dc", "3")
    assert {name: value[name] for name in ("name", "k", "top", "scale", "temperature", "dc", "wp")} == {
        "name": "mine",
        "k": 4,
        "top": 2,
        "scale": 2.5,
        "temperature": "paper",
        "dc": 3,
        "wp": 4,
    }
    assert fit_json(*DEV, *one, "--wp", "7")["wp"] == 7
    value = fit_json(*DEV, *one, "--method", "adaptive", "--temperature", "17", "--hidden", "9")
    assert (value["temperature"], value["hidden"]) == (17.0, 9)


def test_without_a_corpus_the_memory_trains_itself(fit_json: Callable[..., Any], run: Run) -> None:
    value = fit_json(*QUICK, "--sentences", "9")
    assert value["self_trained"] is True
    assert fit_json("--method", "vanilla")["bleu"] == []
    result = run("fit", "store", *QUICK, "--sentences", "9", "--method", "adaptive")
    assert result.code == 0, result.err
    assert re.search(r"trained on +9 sentences of the store, those with the same text", result.out)


def test_parts_left_out(fit_json: Callable[..., Any]) -> None:
    value = fit_json(*DEV, "--updates", "1", "--without", "dc, pseudo-pairs,decline", "--name", "ablation")
    assert (value["name"], value["without"]) == ("ablation", ["dc"])
    assert (value["training"]["pseudo_pairs"], value["training"]["decline"]) == (False, False)
    assert (value["training"]["vector_perturbation"], value["training"]["alpha"]) == (True, 1.0)


@pytest.mark.parametrize(
    ("options", "noise"),
    [((), True), (("--without", "robust-training"), False), (("--method", "adaptive"), False)],
    ids=["robust", "unperturbed", "adaptive"],
)
def test_people_see_the_losses_and_what_was_kept(run: Run, world: Path, options: tuple[str, ...], noise: bool) -> None:
    kept = "adaptive" if "adaptive" in options else "robust"
    sigma = ("--sigma", "0.05") if kept == "robust" else ()
    result = run("fit", "store", *DEV, *QUICK, "--seed", "11", *sigma, *options)
    assert result.code == 0, result.err
    assert result.complaints == []
    assert re.search(rf"kept as +{kept} \(k 8, scale ", result.out)
    assert re.search(r"NLL +\d+\.\d{3} \(base \d+\.\d{3}\), mean λ 0\.\d\d", result.out)
    assert re.search(r"seed +11 *\n", result.out)
    assert "30 updates" in result.out
    rows = re.findall(r"│ +(\d+) │ +(\d+\.\d{3}) │ +(0\.\d\d) │ +(\d\.\d{3}) │", result.out)
    assert [update for update, *_ in rows] == ["10", "20", "30"]
    assert [alpha for *_, alpha in rows] == (["0.990", "0.980", "0.970"] if noise else ["0.000"] * 3)
    shown = re.search(r"noise on a key, σ²·D +([\d.]+), to be compared", result.out)
    assert (shown is not None) == noise
    if shown:
        assert float(shown[1]) == pytest.approx(0.05**2 * Store.open("store").dim)
    assert "median nearest squared distance" in result.out
    assert "next: knnmt translate store < FILE" in result.err


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["people", "json"])
def test_leaks_are_told_whatever_the_form(run: Run, leak: tuple[str, str], form: tuple[str, ...]) -> None:
    for options in (("--updates", "1"), ("--decode-best", "0", "--method", "vanilla")):
        result = run("fit", "store", *leak, *options, *form)
        assert result.code == 0, result.err
        assert "warning: 2 dev sentences are in the store" in result.err
        assert "dev sentences" not in result.out
        if form:
            assert json.loads(result.out)["leaked"] == 2


def test_ctrl_c_is_a_result(run: Run, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after(monkeypatch, 13)
    result = run("fit", "store", *DEV, *QUICK, "--json")
    assert result.code == 0
    assert "Interrupted; the best so far is kept." in result.err
    assert json.loads(result.out)["training"]["updates_made"] == 13
    assert "robust" in Store.open("store").combiners


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--without", "love"), "^--without is love, which is not possible; give one of wp, dc"),
        (
            ("--without", "dc", "--method", "adaptive"),
            "^--without is of the methods robust and evidence and says",
        ),
        (("--preset", "huge"), "^--preset is huge, which is not possible; give one of released, paper"),
        (("--temperature", "warm"), "^--temperature is warm, which is not possible; give one of sigmoid, paper"),
        (
            ("--temperature", "warm", "--method", "adaptive"),
            "is warm, which is not a number above 0, or auto",
        ),
        (
            ("--temperature", "0", "--method", "adaptive"),
            "is 0.0, which is not possible; give a number",
        ),
        (("--k", "6", "--method", "adaptive"), "K cannot be 6; give 8"),
        (("--dc", "8", "--method", "adaptive"), "^--dc is of the method robust and says nothing to adaptive; leave it"),
        (("--exact-perturbation", "--method", "vanilla"), "^--exact-perturbation is of the method robust"),
        (("--hidden", "8"), "^--hidden is of the methods adaptive and evidence and says nothing to robust"),
        (("--decode-best", "2"), "^--decode-best is of the method vanilla"),
        (("--k", "1024"), r"^K is 1024, but the store store holds only \d+ entries; lower --k"),
        (("--learning-rate", "0"), "^--learning-rate is 0.0, which is not possible; give a number above 0"),
        (("--alpha", "1.5"), "^--alpha is 1.5, which is not possible; give a number from 0 to 1"),
        (("--sigma", "-1"), "^--sigma is -1.0, which is not possible; give a number from 0"),
        (("--adam-betas", "0.9,1"), "^--adam-betas is 1.0, which is not possible; give a number from 0 below 1"),
        (("--adam-betas", "0.9"), "^--adam-betas takes 2 values, not 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.parametrize("corpus", [DEV, ()], ids=["dev", "self-trained"])
def test_a_wrong_option_is_one_sentence(
    run: Run,
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    corpus: tuple[str, ...],
    options: tuple[str, ...],
    sentence: str,
) -> None:
    before = Store.open("store").manifest
    monkeypatch.setattr(TranslationModel, "load", lambda *_, **__: pytest.fail("the model is loaded"))
    result = run("fit", "store", *corpus, *options)
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.splitlines()
    assert line.startswith("knnmt: ")
    assert re.search(sentence, line.removeprefix("knnmt: ")), line
    assert Store.open("store").manifest == before


@pytest.mark.parametrize(
    "options", [("--scale", "wide"), ("--k", "0"), ("--updates", "0"), ("--seed", "-1")], ids=" ".join
)
def test_an_option_that_typer_refuses(run: Run, world: Path, options: tuple[str, ...]) -> None:
    result = run("fit", "store", *DEV, *options)
    assert (result.code, result.out) == (2, "")
    assert options[0] in result.err


def test_info_lists_them_all(fit_json: Callable[..., Any], run: Run) -> None:
    robust = fit_json(*DEV, *QUICK, "--without", "dc", "--name", "ablation")
    adaptive = fit_json(*DEV, *QUICK, "--method", "adaptive", "--k", "4")
    listed = {each["name"]: each for each in json.loads(run("info", "store", "--json").out)["combiners"]}
    assert set(listed) == {"ablation", "adaptive", "vanilla"}
    for value in (robust, adaptive):
        found = listed[value["name"]]
        assert found["record"]["nll"] == value["nll"]
        assert found["record"]["training"] == value["training"]
        assert {name: value[name] for name in found if name != "record"} == {
            name: entry for name, entry in found.items() if name != "record"
        }
    shown = " ".join(run("info", "store").out.split())
    assert "ablation robust: k 8, scale " in shown
    assert f"dc 4, wp 32, temperature sigmoid, without ['dc']; dev NLL {robust['nll']:.3f}" in shown
    assert "adaptive adaptive: k 4, scale " in shown
    assert f"hidden 32; dev NLL {adaptive['nll']:.3f}" in shown
