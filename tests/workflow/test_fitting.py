"""What is chosen, what is kept, and what is refused before anything runs."""

import errno
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sentences import SENTENCES
from tolerances import NLL, SHARE
from worlds import interrupt_after, make_store

from knnmt.combiner import CONTEXT, Combiner, Needs, Trained
from knnmt.datastore import Store, StoreWriter
from knnmt.decoding import Settings
from knnmt.errors import KnnmtError, MethodError, StoreError
from knnmt.methods import Method, Vanilla, load_combiner, method_with, registry
from knnmt.methods.vanilla import KS, LAMBDAS, TEMPERATURES
from knnmt.model import TranslationModel
from knnmt.training import Features, Perturber, Recipe, Training, train
from knnmt.workflow import fit, fit_method
from knnmt.workflow.session import Session

WriteCorpus = Callable[..., list[Path]]
# some of the store's kind, so that neighbours help, and none of its sentences
DEV = [(f"{source} Bitte.", target.replace(".", "!")) for source, target in SENTENCES[20:32]]


@pytest.fixture
def dev(write_corpus: WriteCorpus) -> list[Path]:
    return write_corpus(DEV, "dev")


def test_likelihood_chooses_the_best_of_the_grid(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    report = fit(store, dev, "vanilla", model=model, decode_best=0)
    grid = report.fitted.findings["grid"]
    places = {(point["k"], point["lambda"], point["temperature"]): point["nll"] for point in grid}
    assert len(places) == len(KS) * len(LAMBDAS) * len(TEMPERATURES)
    best = min(places, key=places.__getitem__)
    assert report.combiner.options() == dict(zip(("k", "lambda", "temperature"), best, strict=True))
    assert places[best] < sorted(places.values())[len(places) // 2] - 0.05, "the places differ"
    assert report.nll == pytest.approx(places[best], abs=NLL)
    assert report.nll < report.base_nll
    assert report.mean_lambda == pytest.approx(best[1], abs=SHARE)
    assert report.fitted.record["bleu"] == []
    assert report.leaked == 0
    assert fit(store, dev, "vanilla", model=model, decode_best=0, k=8).combiner.k == 8


def test_bleu_decides_among_the_best_few(
    store: Store, model: TranslationModel, dev: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([3.0, 9.0, 6.0])
    decoded: list[list[str]] = []

    def bleu(hypotheses: list[str], references: list[str], target_lang: str | None) -> float:
        assert target_lang == model.codec.target_lang
        assert references == [target for _, target in DEV[:2]]
        decoded.append(hypotheses)
        return next(scores)

    monkeypatch.setattr("knnmt.workflow.session.corpus_bleu", bleu)
    settings = Settings(beam=1, max_length=6, split=False)
    report = fit(store, dev, "vanilla", model=model, decode_best=3, decode_sentences=2, settings=settings)
    scored = report.fitted.record["bleu"]
    assert [each["bleu"] for each in scored] == [3.0, 9.0, 6.0]
    assert report.combiner.options().items() <= scored[1].items()
    assert {**scored[0], "bleu": 0}.items() <= {**report.fitted.findings["grid"][0], "bleu": 0}.items()
    assert [len(lines) for lines in decoded] == [2, 2, 2]
    assert len({each["lambda"] for each in scored}) == 3


def test_what_was_fitted_is_kept_in_the_store(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    first = fit(store, dev, "vanilla", model=model, decode_best=0, k=4)
    second = fit(store.path, dev, "vanilla", model=model, decode_best=0, k=2, name="few", limit=3)
    again = fit(store.path, dev, "vanilla", model=model, decode_best=0, k=8)
    opened = Store.open(store.path)
    assert opened.manifest == again.store.manifest
    assert set(opened.combiners) == {"vanilla", "few"}
    kept = {name: load_combiner(opened, name) for name in opened.combiners}
    assert {name: combiner and combiner.options() for name, combiner in kept.items()} == {
        "vanilla": again.combiner.options(),
        "few": second.combiner.options(),
    }
    assert again.combiner.k == 8 != first.combiner.k
    record = kept["few"].record  # type: ignore[union-attr]
    assert record["nll"] == pytest.approx(second.nll)
    assert record["dev_pairs"] == 3
    assert (record["store"], record["model"]) == (store.fingerprint, store.model.fingerprint)
    assert opened.fingerprint == store.fingerprint, "fitting does not change the pairs"


def test_dev_sentences_that_are_in_the_store_are_counted(
    store: Store, model: TranslationModel, write_corpus: WriteCorpus
) -> None:
    source = SENTENCES[12][0]
    leaked = [(source.upper(), "any translation"), (f" {SENTENCES[30][0]} ", "another")]
    report = fit(store, write_corpus([*leaked, *DEV[:3]]), "vanilla", model=model, decode_best=0)
    assert report.leaked == 2


def test_a_store_smaller_than_the_usual_k(tmp_path: Path, model: TranslationModel, dev: list[Path]) -> None:
    store = make_store(tmp_path / "tiny", model, SENTENCES[22:23])
    assert store.entry_count < max(KS)
    report = fit(store, dev, "vanilla", model=model, decode_best=0)
    assert {point["k"] for point in report.fitted.findings["grid"]} == {k for k in KS if k <= store.entry_count}


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"method": "magic"}, MethodError, "no method magic; choose one of .*vanilla"),
        ({"name": "base"}, MethodError, "choose another"),
        ({"name": "a/b"}, StoreError, "use letters, digits"),
        ({"k": 0}, MethodError, "--k is 0, .* a whole number from 1 to 1,024"),
        ({"k": 100_000}, MethodError, "--k is 100000, .* a whole number from 1 to 1,024"),
    ],
)
def test_a_wrong_option_is_told_before_anything_runs(
    store: Store,
    dev: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, object],
    error: type[KnnmtError],
    sentence: str,
) -> None:
    monkeypatch.setattr(TranslationModel, "load", lambda *_, **__: pytest.fail("the model is loaded"))
    with pytest.raises(error, match=sentence):
        fit(store, dev, **options)  # type: ignore[arg-type]
    assert Store.open(store.path).manifest == store.manifest


def test_what_was_fitted_waits_for_another_writer(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    """Minutes of training must not be lost because somebody adds to the store."""
    other = StoreWriter(store.path, store.model)
    other.__enter__()
    done = threading.Event()

    class Release(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert "waiting until it has finished" in record.getMessage()
            done.set()
            other.__exit__(None, None, None)

    release = Release()
    logging.getLogger("knnmt").addHandler(release)
    try:
        report = fit(store, dev, "vanilla", model=model, decode_best=0, k=4)
    finally:
        logging.getLogger("knnmt").removeHandler(release)
    assert done.is_set()
    assert report.kept
    assert set(Store.open(store.path).combiners) == {"vanilla"}


@pytest.mark.parametrize("method", ["vanilla", "robust"])
def test_a_better_fit_is_not_replaced_by_a_worse_one(
    store: Store, model: TranslationModel, dev: list[Path], method: str
) -> None:
    """The better one has more neighbours here, so that it is judged by features of its own."""
    better = fit(store, dev, "vanilla", name="mine", k=8, model=model, decode_best=0)
    options: dict[str, Any] = {"decode_best": 0} if method == "vanilla" else {"updates": 1, "validate_from": 1}
    worse = fit(better.store, dev, method, name="mine", k=1, model=model, **options)
    assert worse.nll > better.nll
    assert not worse.kept
    assert worse.previous_nll == pytest.approx(better.nll, rel=1e-5)
    assert worse.store.manifest == better.store.manifest == Store.open(store.path).manifest
    forced = fit(better.store, dev, method, name="mine", k=1, model=model, force=True, **options)
    assert forced.kept
    assert Store.open(store.path).manifest != better.store.manifest
    assert fit(forced.store, dev, "vanilla", name="mine", k=8, model=model, decode_best=0).kept, "a better one is"


def test_a_method_that_nobody_knows_how_to_train(
    store: Store, dev: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered, as the docs say, but without a way to be fitted: it must not silently become robust."""

    class Mine(Method):
        name = "mine"
        combiner = Vanilla

    monkeypatch.setitem(registry._METHODS, "mine", Mine)
    with pytest.raises(TypeError, match="abstract"):
        fit(store, dev, "mine")
    assert not Store.open(store.path).combiners


def test_a_failed_fit_leaves_the_store_as_it_was(
    store: Store, model: TranslationModel, dev: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fit(store, dev, "vanilla", model=model, decode_best=0, k=4).store
    files = sorted(store.path.rglob("*"))

    def full(self: Combiner, directory: Path) -> None:
        (directory / "config.json").write_text("{", encoding="utf-8")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Vanilla, "save", full)
    with pytest.raises(StoreError, match="make room"):
        fit(store.path, dev, "vanilla", model=model, decode_best=0, k=2, force=True)
    assert Store.open(store.path).manifest == before.manifest
    assert sorted(store.path.rglob("*")) == files


def test_a_store_of_another_model_is_refused(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    other = TranslationModel.load(model.name, device="cpu")
    other.hf.model.decoder.layers[0].fc1.weight.data += 1
    with pytest.raises(StoreError, match="made with another model"):
        fit(store, dev, model=other)


def test_what_is_stored_finds_itself_again(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    session = Session.open(store, dev, model=model)
    needs = Needs(4, 2, frozenset(CONTEXT))
    found = session.found_again(6, needs)
    assert len(found.lengths) == 6
    assert found.gold_in_k(4) == 1
    assert found.median_nearest < 1e-3 < session.features(needs).median_nearest
    assert found.observation.source_similarity is not None
    assert float(found.observation.source_similarity.amax(1).min()) == pytest.approx(1, abs=1e-5)
    assert torch.equal(session.found_again(6, needs).tokens, found.tokens), "the same seed"
    assert not torch.equal(session.found_again(6, needs, seed=2).tokens, found.tokens)


def test_evidence_learns_what_is_stored(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    """Dev pairs never find themselves, so they cannot teach it."""
    quick = {"updates": 60, "learning_rate": 0.02, "held_out": 0.0, "validate_from": 60, "warmup": 0}
    session = Session.open(store, dev, model=model)
    nll = {}
    for remembered in (0, 10):
        fitted = fit_method(method_with("evidence", quick | {"k": 8, "remembered": remembered}), session)
        assert fitted.combiner.record["training"]["remembered"] == remembered
        assert fitted.combiner.record["nll"] == pytest.approx(
            session.features(fitted.combiner.needs).judge(fitted.combiner)[0]
        )
        nll[remembered] = session.found_again(10, fitted.combiner.needs, seed=5).judge(fitted.combiner)[0]
    assert nll[10] < nll[0] / 2


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Recipe]]:
    """How many sentences each training had, and its recipe."""
    found: list[tuple[int, Recipe]] = []

    def noted(combiner: Trained, features: Features, recipe: Recipe, perturber: Perturber | None = None) -> Training:
        found.append((len(features.lengths), recipe))
        return train(combiner, features, recipe, perturber)

    for name in ("evidence", "trained"):
        monkeypatch.setattr(f"knnmt.methods.{name}.train", noted)
    return found


SHORT: dict[str, Any] = {"k": 4, "updates": 6, "dev_updates": 4, "validate_from": 2, "validate_every": 2}


def test_evidence_trains_on_the_memory_and_then_on_dev(
    store: Store, model: TranslationModel, dev: list[Path], trainings: list[tuple[int, Recipe]]
) -> None:
    report = fit(store.path, dev, "evidence", model=model, stored=7, remembered=3, seed=5, **SHORT)
    [(of_memory, first), (of_dev, second)] = trainings
    assert (of_memory, first.updates, first.held_out, first.learning_rate) == (7 + 3, 6, 0.0, 5e-3)
    assert (of_dev, second.updates, second.held_out, second.learning_rate) == (len(DEV) + 3, 4, 0.15, 2e-3)
    assert first.seed == second.seed == 5
    assert report.combiner.record["training"]["stored"] == 7
    assert report.combiner.record["training"]["updates_made"] == 4


def test_evidence_trains_on_one_of_both(
    store: Store, model: TranslationModel, dev: list[Path], trainings: list[tuple[int, Recipe]]
) -> None:
    fit(store.path, dev, "evidence", model=model, stored=0, remembered=0, **SHORT)
    fit(store.path, method="evidence", model=model, sentences=9, remembered=2, name="own", **SHORT)
    assert [(sentences, recipe.updates) for sentences, recipe in trainings] == [(len(DEV), 6), (9 + 2, 6)]


def test_ctrl_c_while_the_memory_trains(
    store: Store, model: TranslationModel, dev: list[Path], monkeypatch: pytest.MonkeyPatch, trainings: list[Any]
) -> None:
    interrupt_after(monkeypatch, 3)
    report = fit(store.path, dev, "evidence", model=model, **SHORT)
    assert report.fitted.interrupted
    assert len(trainings) == 1
