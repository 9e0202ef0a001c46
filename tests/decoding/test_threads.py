"""What threads may share: a translator, a model, an attached memory."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from sentences import SENTENCES
from worlds import in_threads, load, make_store

from knnmt.datastore import Store, StoreWriter
from knnmt.decoding import Settings, Translator, attach, explain
from knnmt.errors import MethodError
from knnmt.methods import Vanilla
from knnmt.model import TranslationModel
from knnmt.model.onnx import graphs
from knnmt.model.onnx.export import export

LINES = [source for source, _ in SENTENCES[20:32]]
COMBINER = Vanilla(4, 0.5, 10.0)


@pytest.fixture
def model(request: pytest.FixtureRequest, family_directory: Callable[[str], Path]) -> TranslationModel:
    family = getattr(request, "param", "marian")
    return load(family, family_directory(family))


@pytest.fixture
def store(tmp_path: Path, model: TranslationModel) -> Store:
    store = make_store(tmp_path / "store", model)
    with StoreWriter(store.path, store.model) as writer:
        place = writer.new_directory("combiners", "vanilla")
        COMBINER.save(place)
        return writer.commit(combiner=("vanilla", place))


def settings(engine: str, **options: Any) -> Settings:
    return Settings(beam=2, max_length=12, engine=engine, batch_size=3, **options)


def generated(model: TranslationModel, line: str) -> list[int]:
    """By the user's own call of `generate`."""
    (source,) = model.codec.encode_sources([line])
    return list(model.hf.generate(input_ids=torch.tensor([source]), num_beams=2, max_length=12)[0].tolist())


@pytest.mark.parametrize("model", ["marian", "fsmt", "nllb"], indirect=True)
@pytest.mark.parametrize("engine", ["torch", "onnx", "generate"])
def test_a_translator(engine: str, store: Store, model: TranslationModel) -> None:
    shared = Translator.open(store, model=model, settings=settings(engine))
    expected = list(shared.translate(LINES))

    def work(number: int) -> list[list[str]]:
        turned = [LINES[number:] + LINES[:number] for _ in range(3)]
        return [list(shared.translate(lines)) for lines in turned]

    for number, found in enumerate(in_threads(work)):
        assert found == [expected[number:] + expected[:number]] * 3


@pytest.mark.parametrize("shared", [True, False], ids=["one model", "several models"])
def test_translators_made_at_the_same_time(
    shared: bool,
    store: Store,
    model: TranslationModel,
    family_directory: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each finds no graphs, and they are written once."""
    monkeypatch.setenv("KNNMT_CACHE", str(tmp_path / "cache"))
    written = Mock(side_effect=export)
    monkeypatch.setattr(graphs, "export", written)
    models = [model if shared else load("marian", family_directory("marian")) for _ in range(4)]

    def work(number: int) -> list[str]:
        return list(Translator.open(store, model=models[number], settings=settings("onnx")).translate(LINES))

    found = in_threads(work)
    assert found == [list(Translator.open(store, model=model, settings=settings("torch")).translate(LINES))] * len(
        found
    )
    assert written.call_count == 1


@pytest.mark.to_the_bit
def test_a_model_run_by_several_engines(store: Store, model: TranslationModel) -> None:
    """With a memory and without, step by step and over whole targets, and by somebody who knows nothing of us."""
    translators = [
        Translator.open(store, method, model=model, settings=settings(engine))
        for method, engine in (("vanilla", "torch"), ("base", "torch"), ("vanilla", "generate"), ("base", "generate"))
    ]
    works: list[Callable[[], object]] = [lambda each=each: list(each.translate(LINES)) for each in translators]  # type: ignore[misc]
    works.append(lambda: [generated(model, line) for line in LINES])
    works.append(lambda: [explain(translators[0], each) for each in translators[0].translations(LINES[:3])])
    expected = [work() for work in works]
    found = in_threads(lambda number: [works[number]() for _ in range(3)], len(works))
    assert found == [[each] * 3 for each in expected]


@pytest.mark.parametrize("model", ["marian", "fsmt"], indirect=True)
def test_an_attached_memory_helps_every_thread(store: Store, model: TranslationModel) -> None:
    alone = [generated(model, line) for line in LINES]
    with attach(model.hf, model.codec.tokenizer, store):
        expected = [generated(model, line) for line in LINES]
        found = in_threads(lambda number: [generated(model, line) for line in LINES])
    assert found == [expected] * len(found)
    assert expected != alone
    assert [generated(model, line) for line in LINES] == alone


@pytest.mark.parametrize("engine", ["torch", "generate"])
def test_a_translator_of_an_attached_model_has_its_own_memory(
    engine: str, store: Store, model: TranslationModel
) -> None:
    for method in ("base", "vanilla"):
        translator = Translator.open(store, method, model=model, settings=settings(engine))
        expected = list(translator.translate(LINES))
        with attach(model.hf, model.codec.tokenizer, store):
            assert list(translator.translate(LINES)) == expected


def test_attaching_and_leaving_does_not_disturb_a_translator(store: Store, model: TranslationModel) -> None:
    translator = Translator.open(store, model=model, settings=settings("torch"))
    expected = list(translator.translate(LINES))

    def work(number: int) -> list[list[str]]:
        if number:
            return [list(translator.translate(LINES)) for _ in range(3)]
        for _ in range(10):
            with attach(model.hf, model.codec.tokenizer, store):
                generated(model, LINES[0])
        return []

    assert in_threads(work) == [[], *[[expected] * 3] * 3]


def test_a_second_attached_memory_is_refused(store: Store, model: TranslationModel) -> None:
    refused = []

    def again() -> None:
        with pytest.raises(MethodError, match="attached already; leave that block first") as caught:
            attach(model.hf, model.codec.tokenizer, store).__enter__()
        refused.append(caught)

    with attach(model.hf, model.codec.tokenizer, store):
        again()
        thread = Thread(target=again)
        thread.start()
        thread.join()
    assert len(refused) == 2
    with attach(model.hf, model.codec.tokenizer, store):
        pass  # as soon as the first has left
