"""What was opened is used to the end, whatever is fitted, added or moved meanwhile."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sentences import SENTENCES
from worlds import load, make_store

from knnmt.datastore import Store, StoreWriter
from knnmt.decoding import Settings, Translator, attach, explain
from knnmt.errors import MethodError
from knnmt.model import TranslationModel
from knnmt.workflow import build, evaluate, fit, info

WriteCorpus = Callable[..., list[Path]]
DEV = [(f"{source} Bitte.", target.replace(".", "!")) for source, target in SENTENCES[20:32]]
ONE: dict[str, Any] = {"updates": 1, "validate_from": 1}
SHORT = Settings(beam=2, max_length=6, split=False)


@pytest.fixture
def dev(write_corpus: WriteCorpus) -> list[Path]:
    return write_corpus(DEV, "dev")


@pytest.fixture
def meddle(store: Store, model: TranslationModel, dev: list[Path], write_corpus: WriteCorpus) -> Callable[[], None]:
    """Fits the same name with a larger K, adds pairs, builds an index twice, and sweeps."""
    more = write_corpus(SENTENCES[:10], "more")

    def run() -> None:
        fit(store.path, dev, "robust", model=model, k=16, force=True, **ONE)
        build(store.path, more, model, index="ivf")
        build(store.path, [], index="ivf")
        with StoreWriter(store.path, store.model):
            pass

    return run


def test_an_evaluation(
    store: Store,
    model: TranslationModel,
    dev: list[Path],
    meddle: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = fit(store, dev, "robust", model=model, k=4, **ONE).store
    expected = evaluate(before, dev, ["base", "robust"], settings=SHORT, model=model)
    made = Translator.__init__
    met: list[bool] = []

    def meddled(self: Any, *arguments: Any, **options: Any) -> None:
        if not met:
            met.append(True)
            meddle()
        made(self, *arguments, **options)

    monkeypatch.setattr(Translator, "__init__", meddled)
    found = evaluate(store.path, dev, ["base", "robust"], settings=SHORT, model=model)
    assert met
    assert Store.open(store.path).entry_count > before.entry_count
    assert found.runs["robust"].signature == expected.runs["robust"].signature
    assert found.runs["robust"].translations == expected.runs["robust"].translations


@pytest.mark.to_the_bit
def test_a_translator_and_its_explanations(
    store: Store, model: TranslationModel, dev: list[Path], meddle: Callable[[], None]
) -> None:
    before = fit(build_index(store), dev, "robust", model=model, k=4, **ONE).store
    translator = Translator.open(before, "robust", settings=SHORT, model=model)
    source = [DEV[0][0]]
    expected = explain(translator, next(translator.translations(source)))
    signature = translator.signature
    meddle()
    assert explain(translator, next(translator.translations(source))) == expected
    assert translator.signature == signature
    again = Translator.open(before, "robust", settings=SHORT, model=model)
    assert again.signature == signature, "the index it names was kept for it"
    assert Translator.open(before.latest(), "robust", settings=SHORT, model=model).signature != signature


def build_index(store: Store) -> Store:
    return build(store.path, [], index="ivf")


def test_a_store_from_before_a_fit_says_so(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    fit(store, dev, "vanilla", model=model, decode_best=0, k=4)
    with pytest.warns(UserWarning, match=r"opened before something was fitted.*store\.latest\(\)"):
        Translator.open(store, model=model)
    with (
        pytest.raises(MethodError, match=r"store\.latest\(\)"),
        attach(model.hf, model.codec.tokenizer, store),
    ):
        pass


def test_a_model_that_was_moved_is_remembered(
    tmp_path: Path, family_directory: Callable[[str], Path], write_corpus: WriteCorpus
) -> None:
    place, new = tmp_path / "model", tmp_path / "moved"
    shutil.copytree(family_directory("marian"), place)
    store = make_store(tmp_path / "store", load("marian", place))
    translator = Translator.open(store, "base", model=str(family_directory("marian")), device="cpu")
    assert info(store.path)["model"]["id"] == str(place), "a copy is no move"
    place.rename(new)
    Translator.open(store.path, "base", model=str(new), device="cpu")
    assert info(store.path)["model"]["id"] == str(new)
    assert Translator.open(store.path, "base", device="cpu").model.fingerprint == translator.model.fingerprint
    new.rename(place)
    report = build(store.path, write_corpus(SENTENCES[:2]), str(place), device="cpu", precision="float32")
    assert report.model == replace(store.model, id=str(place))
