"""Adaptive and robust from dev files, or from the store alone, to a combiner in the store."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentences import SENTENCES
from tolerances import DISTANCE, NLL, TRUST
from worlds import QUICK, interrupt_after, load, make_store

from knnmt.combiner import Needs, Trained
from knnmt.corpus import Corpus, Pair
from knnmt.datastore import Store
from knnmt.decoding import Translator
from knnmt.errors import MethodError
from knnmt.methods import Adaptive, Robust, Vanilla, load_combiner
from knnmt.methods.vanilla import LAMBDAS
from knnmt.model import Engine, TorchEngine, TranslationModel
from knnmt.search import Searcher
from knnmt.training import ClosedForm, Features, Perturbation, collect_features, collect_stored
from knnmt.workflow import fit

WriteCorpus = Callable[..., list[Path]]
# of the store's kind, so that neighbours help, and none of its sentences
DEV = [(f"{source} Bitte.", target.replace(".", "!")) for source, target in SENTENCES[20:32]]
ONE: dict[str, Any] = {"updates": 1}
METHODS = ("robust", "adaptive")


@pytest.fixture
def dev(write_corpus: WriteCorpus) -> list[Path]:
    return write_corpus(DEV, "dev")


def features_of(store: Store, model: TranslationModel, k: int, top: int) -> Features:
    pairs = [Pair(source, target, "dev", number) for number, (source, target) in enumerate(DEV)]
    return collect_features(TorchEngine(model), Searcher(store), pairs, Needs(k, top))


@pytest.mark.parametrize("method", METHODS)
def test_what_is_kept(store: Store, model: TranslationModel, dev: list[Path], method: str) -> None:
    options = QUICK | {"seed": 7} | ({"sigma": 0.02} if method == "robust" else {})
    report = fit(store, dev, method, model=model, **options)
    assert (report.name, report.combiner.method, report.combiner.k) == (method, method, 8)
    assert report.nll < report.base_nll
    assert 0 < report.mean_lambda < 1
    assert report.store.fingerprint == store.fingerprint
    directory = Store.open(store.path).combiners[method]
    assert {path.name for path in directory.iterdir()} == {"config.json", "model.safetensors"}
    record = json.loads((directory / "config.json").read_text(encoding="utf-8"))["record"]
    assert record["nll"] == report.nll
    assert record["base_nll"] == report.base_nll
    assert record["dev"] == Corpus(dev, languages=model.codec.languages).scan().digest
    assert record["dev_pairs"] == record["sentences"] == len(DEV)
    assert (record["store"], record["model"]) == (store.fingerprint, store.model.fingerprint)
    training = record["training"]
    assert training.items() >= options.items()
    assert (training["updates_made"], training["interrupted"]) == (60, False)
    assert [update for update, _, _ in training["history"]] == [20, 40, 60]
    losses = {update: nll for update, nll, _ in training["history"]}  # rounded, so that several may be the least
    assert losses[training["best_update"]] == min(losses.values()) == pytest.approx(report.nll, abs=NLL)
    (history,) = report.fitted.tables
    assert [row[0] for row in history.rows] == ["20", "40", "60"]
    alphas = [f"{Perturbation().ratio(update):.3f}" for update in (20, 40, 60)]
    assert [row[3] for row in history.rows] == (alphas if method == "robust" else ["0.000"] * 3)
    assert history.chosen is not None
    assert history.rows[history.chosen[0]][1] == f"{report.nll:.3f}"


@pytest.mark.parametrize("method", METHODS)
def test_what_is_loaded_is_what_was_trained(
    store: Store, model: TranslationModel, dev: list[Path], method: str
) -> None:
    """Several side by side, each with its own K; with the neighbours it was made for its NLL is as recorded."""
    reports = {f"of-{k}": fit(store.path, dev, method, k=k, name=f"of-{k}", model=model, **QUICK) for k in (4, 16, 32)}
    opened = Store.open(store.path)
    assert set(opened.combiners) == set(reports)
    features = features_of(opened, model, 32, 32)
    losses = set()
    for name, report in reports.items():
        combiner = load_combiner(opened, name)
        assert isinstance(combiner, Trained)
        assert combiner.k == int(name.removeprefix("of-"))
        assert combiner.options() == report.combiner.options()
        nll, lam = features.judge(combiner)
        assert nll == pytest.approx(combiner.record["nll"], abs=NLL)
        assert lam == pytest.approx(report.mean_lambda, abs=TRUST)
        assert report.gold_in_k == pytest.approx(features.gold_in_k(combiner.k))
        losses.add(round(nll, 4))
    assert len(losses) == 3


@pytest.mark.to_the_bit
def test_the_seed_decides(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    """And nothing else: the same code on the same shapes, so the losses are the same to the bit."""
    losses = [fit(store.path, dev, model=model, **QUICK | {"updates": 20, "seed": seed}).nll for seed in (1, 1, 2)]
    assert losses[0] == losses[1]
    assert abs(losses[0] - losses[2]) > 10 * NLL


@pytest.mark.to_the_bit
def test_a_signature_tells_weights_apart(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    """Two that were trained alike but for the seed have the same options and translate differently."""

    def signature(seed: int) -> str:
        fit(store.path, dev, model=model, seed=seed, force=True, **ONE)
        return Translator.open(store.path, "robust", model=model).signature

    one, other = signature(1), signature(2)
    assert one == signature(1) != other
    assert re.sub(r"weights:\w+", "", one) == re.sub(r"weights:\w+", "", other)


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often keys got noise, and how often pairs were made up."""
    calls = {"on_keys": 0, "on_queries": 0}

    def watch(kind: type, name: str) -> None:
        real = getattr(kind, name)

        def spy(self: Any, *rest: Any) -> Any:
            calls[name] += 1
            return real(self, *rest)

        monkeypatch.setattr(kind, name, spy)

    for name in calls:
        watch(ClosedForm, name)
    return calls


@pytest.mark.parametrize(
    ("part", "recorded"),
    [
        ("wp", {}),
        ("dc", {}),
        ("vector-perturbation", {"vector_perturbation": False}),
        ("pseudo-pairs", {"pseudo_pairs": False}),
        ("robust-training", {"alpha": 0.0}),
        ("decline", {"decline": False}),
        (None, {}),
    ],
)
def test_a_part_is_left_out_and_no_other(
    store: Store,
    model: TranslationModel,
    dev: list[Path],
    noise: dict[str, int],
    part: str | None,
    recorded: dict[str, object],
) -> None:
    options = QUICK | {"updates": 30}
    report = fit(store, dev, model=model, without=[part] if part else (), **options)
    combiner = load_combiner(report.store, "robust")
    assert isinstance(combiner, Robust)
    assert list(combiner.without) == [name for name in ("wp", "dc") if name == part]
    networks = {name.split(".")[0] for name in combiner.network.state_dict()}
    assert networks == {"shared", "dc", "nmt"} - {"wp": {"nmt"}, "dc": {"dc"}}.get(part or "", set())
    assert combiner.needs.top == (0 if part == "wp" else 8)
    training = combiner.record["training"]
    assert training.items() >= (options | Perturbation().to_json() | recorded).items()
    silent = {"vector-perturbation": {"on_keys"}, "pseudo-pairs": {"on_queries"}, "robust-training": set(noise)}
    assert {name for name, calls in noise.items() if not calls} == silent.get(part or "", set())
    alphas = {row[3] for row in report.fitted.tables[0].rows}
    expected = {f"{Perturbation().ratio(update):.3f}" for update in (20, 30)}
    assert alphas == {"robust-training": {"0.000"}, "decline": {"1.000"}}.get(part or "", expected)


def test_several_parts_are_left_out(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    report = fit(store, dev, model=model, without=("dc", "decline", "wp", "dc"), **QUICK | {"updates": 2})
    assert report.combiner.options()["without"] == ["dc", "wp"]
    assert report.combiner.record["training"]["decline"] is False


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"without": "love"}, "--without is love, which is not possible"),
        ({"without": ["love"]}, "give one of wp, dc, vector-perturbation"),
        (
            {"without": ["dc"], "method": "adaptive"},
            "--without is of the methods robust and evidence and says nothing to adaptive",
        ),
        (
            {"without": ["decline"], "method": "vanilla"},
            "--without is of the methods robust and evidence and says",
        ),
        ({"love": 3}, "--love does not exist .* leave it out .robust has .*--updates"),
        ({"preset": "huge"}, "--preset is huge, .* one of released, paper"),
        ({"temperature": "warm"}, "--temperature is warm, .* one of sigmoid, paper"),
        ({"temperature": 3.0}, "--temperature is 3.0"),
        ({"temperature": "sigmoid", "method": "adaptive"}, "is sigmoid, .* a number above 0"),
        ({"temperature": -1.0, "method": "adaptive"}, "a number above 0"),
        ({"top": -1}, "--top is -1, .* a whole number from 0"),
        ({"hidden": 0, "method": "adaptive"}, "a whole number from 1 to 4,096"),
        ({"hidden": True, "method": "adaptive"}, "a whole number from 1"),
        ({"k": 6, "method": "adaptive"}, "K cannot be 6"),
        ({"k": 1024}, "holds only .* lower --k"),
        ({"k": 1025}, "a whole number from 1 to 1,024"),
        ({"updates": 0}, "--updates is 0, .* a whole number from 1"),
        ({"learning_rate": float("inf")}, "give a number above 0"),
        ({"sigma": float("nan")}, "give a number from 0"),
        ({"scale": 0.0}, "a number above 0, or auto"),
        ({"scale": float("inf"), "method": "adaptive"}, "a number above 0, or auto"),
        ({"dc": 0}, "a whole number from 1"),
        ({"temperature": 0.0, "method": "adaptive"}, "a number above 0"),
        ({"adam_betas": (0.9,)}, "--adam-betas takes 2 values, not 1"),
        ({"top": 10_000}, "--top is 10000, but the model knows"),
        ({"corpus": (), "sentences": 0}, "say with --sentences"),
        ({"corpus": (), "limit": 3}, "say with --sentences"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_a_wrong_option_is_told_before_anything_runs(
    store: Store, dev: list[Path], monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setattr(TranslationModel, "load", lambda *_, **__: pytest.fail("the model is loaded"))
    with pytest.raises(MethodError, match=sentence):
        fit(store, **{"corpus": dev} | options)
    assert Store.open(store.path).manifest == store.manifest


def test_sizes_and_forms_of_the_networks(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    def options(method: str = "robust", **given: Any) -> dict[str, Any]:
        return fit(store.path, dev, method, model=model, **ONE, **given).combiner.options()

    released, paper = options(), options(preset="paper", temperature="paper")
    assert (released["dc"], released["wp"], released["temperature"], released["top"]) == (4, 32, "sigmoid", 8)
    assert (paper["dc"], paper["wp"], paper["temperature"]) == (32, 4, "paper")
    mine = options(preset="paper", dc=5, top=3)
    assert (mine["dc"], mine["wp"], mine["top"]) == (5, 4, 3)
    assert options("adaptive", hidden=6)["hidden"] == 6


@pytest.mark.parametrize("method", METHODS)
def test_the_scale_of_distances(store: Store, model: TranslationModel, dev: list[Path], method: str) -> None:
    """The median nearest becomes 10, the range the recipe was made for, unless a scale is given."""
    report = fit(store.path, dev, method, model=model, **ONE)
    nearest = features_of(store, model, 1, 0).observation.distances[:, 0].numpy()
    assert report.median_nearest == pytest.approx(np.sort(nearest)[(len(nearest) - 1) // 2], rel=DISTANCE["rtol"])
    assert report.combiner.options()["scale"] == pytest.approx(report.median_nearest / 10)
    given = fit(store.path, dev, method, model=model, scale=3.5, **ONE)
    assert given.combiner.options()["scale"] == 3.5


def test_the_temperature_of_adaptive(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    """A number if given; else the likeliest of five; else, once there is one, that of the store's vanilla."""

    def temperature(**given: Any) -> float:
        report = fit(store.path, dev, "adaptive", k=4, model=model, **ONE, **given)
        assert isinstance(report.combiner, Adaptive)
        return report.combiner.temperature

    features = features_of(store, model, 4, 0)
    choices = [share * features.median_nearest for share in (0.1, 0.2, 0.5, 1.0, 2.0)]
    losses = {t: min(features.judge(Vanilla(4, lam, t))[0] for lam in LAMBDAS) for t in choices}
    best, second = sorted(losses.values())[:2]
    assert second - best > 10 * NLL, "rounding does not decide"
    assert temperature() == pytest.approx(min(losses, key=losses.__getitem__), rel=DISTANCE["rtol"])
    assert temperature(temperature=42.0) == 42.0
    fit(store.path, dev, "vanilla", name="aaa", k=2, model=model, decode_best=0, limit=2)
    only = load_combiner(Store.open(store.path), "aaa")
    assert isinstance(only, Vanilla)
    assert only.temperature not in [pytest.approx(choice, rel=0.01) for choice in choices]
    assert temperature() == only.temperature, "a vanilla of any name"
    named = fit(store.path, dev, "vanilla", k=16, model=model, decode_best=0).combiner
    assert isinstance(named, Vanilla)
    assert named.temperature != pytest.approx(only.temperature, rel=0.01)
    assert temperature() == named.temperature, "the one called vanilla first"


@pytest.mark.parametrize("method", ["robust", "adaptive", "vanilla"])
def test_the_memory_trains_itself(
    store: Store, model: TranslationModel, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Without dev pairs: stored keys are the queries, so the model need not run, and nothing can be decoded."""
    monkeypatch.setattr(Translator, "translations", lambda *_: pytest.fail("stored sentences are decoded"))
    monkeypatch.setattr(Engine, "teacher_forced", lambda *_: pytest.fail("the model is run"))
    options = {"seed": 3} | ({} if method == "vanilla" else QUICK)
    report = fit(store, method=method, model=model, sentences=20, **options)
    assert report.self_trained
    assert report.leaked == report.skipped == 0
    assert set(report.fitted.record) == {"bleu" if method == "vanilla" else "training"}
    assert report.fitted.record.get("bleu", []) == []
    assert ("grid" in report.fitted.findings) == (method == "vanilla")
    combiner = load_combiner(report.store, method)
    assert combiner is not None
    assert (combiner.record["dev"], combiner.record["dev_pairs"], combiner.record["sentences"]) == (None, None, 20)
    features = collect_stored(TorchEngine(model), Searcher(store), 20, combiner.needs, seed=3)
    assert len(features) == combiner.record["dev_tokens"]
    assert features.judge(combiner)[0] == pytest.approx(report.nll, abs=NLL)
    assert report.base_nll == pytest.approx(features.base_nll, abs=NLL)
    assert features.observation.distances.min() > 0.01, "no sentence found itself"


def test_all_sentences_where_more_are_asked_for(store: Store, model: TranslationModel) -> None:
    report = fit(store, model=model, **ONE)
    assert report.combiner.record["sentences"] == store.sentence_count
    assert report.combiner.record["dev_tokens"] == store.entry_count


def test_the_memory_trains_itself_on_states_before_the_feed_forward(
    tmp_path: Path, family_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load("marian", family_directory("marian"), key_layer="ffn_input")
    store = make_store(tmp_path / "ffn", model)
    report = fit(store, model=model, sentences=10, **QUICK | {"updates": 20})
    assert report.combiner.record["sentences"] == 10
    monkeypatch.setattr(TranslationModel, "load", lambda *_, **__: pytest.fail("the model is loaded"))
    with pytest.raises(MethodError, match="leave out --exact-perturbation"):
        fit(store, updates=1, exact_perturbation=True, sentences=2)


@pytest.mark.parametrize("method", ["robust", "adaptive", "vanilla"])
def test_a_memory_without_likes_cannot_train_itself(tmp_path: Path, model: TranslationModel, method: str) -> None:
    store = make_store(tmp_path / "one", model, SENTENCES[12:13])
    with pytest.raises(MethodError, match="give dev pairs"):
        fit(store, method=method, k=4, model=model)
    assert not Store.open(store.path).combiners


def test_leaks_are_counted(store: Store, model: TranslationModel, write_corpus: WriteCorpus) -> None:
    leaked = [(SENTENCES[12][0].upper(), "any translation"), (f" {SENTENCES[30][0]} ", "another")]
    report = fit(store, write_corpus([*leaked, *DEV[:3], ("Haus " * 400, "house")]), model=model, **ONE)
    assert (report.leaked, report.skipped) == (2, 1)
    assert report.combiner.record["sentences"] == 5


@pytest.mark.parametrize("after", [3, 45])
def test_ctrl_c_keeps_a_combiner(
    store: Store, model: TranslationModel, dev: list[Path], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    interrupt_after(monkeypatch, after)
    report = fit(store, dev, model=model, **QUICK)
    assert report.fitted.interrupted
    combiner = load_combiner(Store.open(store.path), "robust")
    assert combiner is not None
    assert combiner.record["training"]["interrupted"] is True
    assert combiner.record["training"]["updates_made"] == after
    assert features_of(store, model, 8, 8).judge(combiner)[0] == pytest.approx(report.nll, abs=NLL)


@pytest.mark.parametrize("with_dev", [True, False], ids=["dev", "self-trained"])
def test_exact_perturbation(
    store: Store, model: TranslationModel, dev: list[Path], monkeypatch: pytest.MonkeyPatch, with_dev: bool
) -> None:
    """Keys are read back and projected; without noise what comes of it is what the closed form gives."""
    options = QUICK | {"updates": 20, "sigma": 0.0}
    corpus = dev if with_dev else []
    closed = fit(store.path, corpus, name="closed", model=model, sentences=12, **options)
    read: list[int] = []
    project = Engine.token_log_p

    def spy(self: Engine, hidden: Any, tokens: Any) -> Any:
        read.append(len(tokens))
        return project(self, hidden, tokens)

    monkeypatch.setattr(Engine, "token_log_p", spy)
    exact = fit(store.path, corpus, model=model, exact_perturbation=True, sentences=12, name="exact", **options)
    assert sum(read) > 8 * exact.combiner.record["dev_tokens"], "K projections per position"
    assert exact.nll == pytest.approx(closed.nll, abs=1e-3)
    unperturbed = fit(store.path, corpus, without=["robust-training"], model=model, sentences=12, **options)
    assert abs(unperturbed.nll - closed.nll) > 0.01, "perturbation matters"
    assert exact.combiner.record["training"]["exact_perturbation"] is True
