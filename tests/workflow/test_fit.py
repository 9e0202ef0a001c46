"""What is chosen, what is kept, and what is refused before anything runs."""

import errno
import importlib
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from sentences import SENTENCES
from tolerances import NLL, SHARE
from worlds import make_store

from knnmt.combiner import METHODS, Combiner, Vanilla, load_combiner
from knnmt.datastore import Store, StoreWriter
from knnmt.decoding import Settings
from knnmt.errors import KnnmtError, MethodError, StoreError
from knnmt.model import TranslationModel
from knnmt.training import Recipe
from knnmt.tuning.vanilla import KS, LAMBDAS, TEMPERATURES
from knnmt.workflow import fit

module = importlib.import_module("knnmt.workflow.fit_vanilla")

WriteCorpus = Callable[..., list[Path]]
# some of the store's kind, so that neighbours help, and none of its sentences
DEV = [(f"{source} Bitte.", target.replace(".", "!")) for source, target in SENTENCES[20:32]]


@pytest.fixture
def dev(write_corpus: WriteCorpus) -> list[Path]:
    return write_corpus(DEV, "dev")


def test_likelihood_chooses_the_best_of_the_grid(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    report = fit(store, dev, "vanilla", model=model, decode_best=0)
    places = {(point.k, point.lam, point.temperature): point.nll for point in report.grid}
    assert len(places) == len(KS) * len(LAMBDAS) * len(TEMPERATURES)
    best = min(places, key=places.__getitem__)
    assert report.combiner.options() == dict(zip(("k", "lambda", "temperature"), best, strict=True))
    assert places[best] < sorted(places.values())[len(places) // 2] - 0.05, "the places differ"
    assert report.nll == pytest.approx(places[best], abs=NLL)
    assert report.nll < report.base_nll
    assert report.mean_lambda == pytest.approx(best[1], abs=SHARE)
    assert report.bleu == []
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

    monkeypatch.setattr(module, "corpus_bleu", bleu)
    settings = Settings(beam=1, max_length=6, split=False)
    report = fit(store, dev, "vanilla", model=model, decode_best=3, decode_sentences=2, settings=settings)
    assert [score for _, score in report.bleu] == [3.0, 9.0, 6.0]
    assert report.combiner.options() == report.bleu[1][0].combiner().options()
    assert report.grid[0] == report.bleu[0][0]
    assert [len(lines) for lines in decoded] == [2, 2, 2]
    assert len({point.lam for point, _ in report.bleu}) == 3


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
    assert {point.k for point in report.grid} == {k for k in KS if k <= store.entry_count}


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"method": "magic"}, MethodError, "no method magic; choose one of .*vanilla"),
        ({"name": "base"}, MethodError, "choose another"),
        ({"name": "a/b"}, StoreError, "use letters, digits"),
        ({"k": 0}, MethodError, "give 1 or more"),
        ({"k": 100_000}, MethodError, r"K is 100000, but .* holds only \d+ entries; lower --k"),
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

    def release(message: Warning | str, *_: object, **__: object) -> None:
        assert "waiting until it has finished" in str(message)
        done.set()
        other.__exit__(None, None, None)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = release
        report = fit(store, dev, "vanilla", model=model, decode_best=0, k=4)
    assert done.is_set()
    assert report.kept
    assert set(Store.open(store.path).combiners) == {"vanilla"}


@pytest.mark.parametrize("method", ["vanilla", "robust"])
def test_a_better_fit_is_not_replaced_by_a_worse_one(
    store: Store, model: TranslationModel, dev: list[Path], method: str
) -> None:
    """The better one has more neighbours here, so that it is judged by features of its own."""
    better = fit(store, dev, "vanilla", name="mine", k=8, model=model, decode_best=0)
    recipe = Recipe(updates=1, validate_from=1)
    worse = fit(better.store, dev, method, name="mine", k=1, model=model, decode_best=0, recipe=recipe)
    assert worse.nll > better.nll
    assert not worse.kept
    assert worse.previous_nll == pytest.approx(better.nll, rel=1e-5)
    assert worse.store.manifest == better.store.manifest == Store.open(store.path).manifest
    forced = fit(better.store, dev, method, name="mine", k=1, model=model, decode_best=0, recipe=recipe, force=True)
    assert forced.kept
    assert Store.open(store.path).manifest != better.store.manifest
    assert fit(forced.store, dev, "vanilla", name="mine", k=8, model=model, decode_best=0).kept, "a better one is"


def test_a_method_that_nobody_knows_how_to_train(
    store: Store, dev: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered, as the docs say, but without a way to be fitted: it must not silently become robust."""

    class Mine(Vanilla):
        method = "mine"

    monkeypatch.setitem(METHODS, "mine", Mine)
    with pytest.raises(MethodError, match="does not know how to train the method mine"):
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
