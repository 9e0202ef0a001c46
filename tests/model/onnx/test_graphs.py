"""Exported graphs against the model they are of."""

import errno
import gc
import os
import shutil
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
import torch
from families import FAMILIES
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException
from sentences import SENTENCES
from tolerances import LOG_P, STATES
from torch import Tensor
from worlds import load

from knnmt.errors import ModelError, NotEnoughMemory
from knnmt.model import Decoder, Logits, Purpose, TorchEngine, TranslationModel, choose_engine
from knnmt.model.onnx import graphs
from knnmt.model.onnx.engine import OnnxEngine
from knnmt.model.onnx.export import GRAPHS, STEP, TARGETS, export
from knnmt.model.onnx.graphs import GraphError, open_sessions, verify
from knnmt.model.onnx.quantise import quantise
from knnmt.model.onnx.sessions import Sessions

SOURCES = [source for source, _ in SENTENCES[:6]]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of the test's own, for tests of what is kept; others use the one that all tests share."""
    monkeypatch.setenv("KNNMT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def first_logits(decoder: Decoder, tokens: torch.Tensor) -> torch.Tensor:
    return decoder.project(decoder.step(tokens)).values


def walk(decoder: Decoder, model: TranslationModel, beam: int) -> list[torch.Tensor]:
    """Keys and logits along a random walk: hypotheses split, change places, die, and sentences leave."""
    generator = torch.Generator().manual_seed(4)
    left = len(SOURCES)
    step = decoder.step(torch.tensor([list(model.codec.prefix)] * left))
    seen = [step.keys.clone(), decoder.project(step).values.clone()]
    width = 1
    for turn in range(40):  # beyond the first growth of the caches
        stay = torch.arange(left)
        if turn == 5:
            stay = stay[torch.arange(left) != turn % left]
        if turn in (11, 30):  # another takes the place of the one that leaves
            stay[turn % left] = left - 1
            stay = stay[:-1]
        parents = torch.randint(0, width, (len(stay), beam), generator=generator)
        decoder.select((stay[:, None] * width + parents).flatten())
        left, width = len(stay), beam
        step = decoder.step(torch.randint(5, model.vocab_size, (left * beam, 1), generator=generator))
        seen += [step.keys.clone(), decoder.project(step).values.clone()]
    return seen


@pytest.mark.parametrize("key_layer", ["output", "ffn_input"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_step_is_the_models(family: str, key_layer: str, family_directory: Callable[[str], Path]) -> None:
    model = load(family, family_directory(family), key_layer=key_layer)
    sources = model.codec.encode_sources(SOURCES)
    with torch.inference_mode():
        ours = walk(OnnxEngine(model, open_sessions(model, "float32")).start(sources), model, beam=3)
        theirs = walk(TorchEngine(model).start(sources), model, beam=3)
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, **STATES)


@pytest.mark.parametrize("key_layer", ["output", "ffn_input"])
@pytest.mark.parametrize("family", FAMILIES)
def test_whole_targets_are_the_models(family: str, key_layer: str, family_directory: Callable[[str], Path]) -> None:
    model = load(family, family_directory(family), key_layer=key_layer)
    sources = model.codec.encode_sources([source for source, _ in SENTENCES])
    targets = model.codec.encode_targets([target for _, target in SENTENCES])
    ours, theirs = choose_engine(model, "onnx", "float32", Purpose.TARGETS), TorchEngine(model)
    found, expected = ours.teacher_forced(sources, targets), theirs.teacher_forced(sources, targets)
    np.testing.assert_allclose(found.keys, expected.keys, **STATES)
    np.testing.assert_allclose(found.hidden, expected.hidden, **STATES)
    np.testing.assert_allclose(ours.log_p(found), theirs.log_p(expected), atol=LOG_P)


@pytest.mark.parametrize("family", ["marian", "nllb", "t5"])
def test_eight_bits_are_near(family: str, family_directory: Callable[[str], Path]) -> None:
    model = load(family, family_directory(family))
    engine = OnnxEngine(model, open_sessions(model, "int8"))
    assert (engine.name, engine.precision) == ("onnx", "int8")
    with torch.inference_mode():
        found, exact = (
            first_logits(each.start(model.codec.encode_sources(SOURCES)), torch.tensor([list(model.codec.prefix)] * 6))
            for each in (engine, TorchEngine(model))
        )
    error = float((found - exact).abs().mean() / exact.std())
    assert 1e-4 < error < 0.1


def test_graphs_are_written_once_and_used_again(
    family_directory: Callable[[str], Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = family_directory("marian")
    open_sessions(load("marian", directory), "float32")
    assert len(list(cache.iterdir())) == 1, "nothing half-written is left"
    monkeypatch.setattr(graphs, "export", lambda *_: pytest.fail("exported again"))
    model = load("marian", directory)
    again = OnnxEngine(model, open_sessions(model, "float32"))
    assert first_logits(again.start([[5, 6, 0]]), torch.tensor([[7]])).isfinite().all()


@pytest.mark.parametrize("purpose", Purpose)
def test_graphs_of_another_model_are_noticed(purpose: Purpose, family_directory: Callable[[str], Path]) -> None:
    model = load("marian", family_directory("marian"))
    engine = OnnxEngine(model, open_sessions(model, "float32"))
    verify(engine, 1e-3, purpose)
    model.hf.model.decoder.layers[0].fc1.weight.data *= 1.5
    with pytest.raises(GraphError, match="differ by"):
        verify(engine, 1e-3, purpose)


def test_kept_graphs_are_compared_with_the_model_again(
    family_directory: Callable[[str], Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bias is no parameter and not in the fingerprint; a file may be damaged."""
    directory = family_directory("marian")
    open_sessions(load("marian", directory), "float32")
    changed = load("marian", directory)
    changed.hf.final_logits_bias[:, :50] += 3
    del changed.bias  # known since it was loaded
    opened = OnnxEngine(changed, open_sessions(changed, "float32"))
    with torch.inference_mode():
        found, expected = (
            first_logits(engine.start([[5, 6, 0]]), torch.tensor([[7]])) for engine in (opened, TorchEngine(changed))
        )
    np.testing.assert_allclose(found, expected, atol=LOG_P)
    (home,) = cache.iterdir()
    (home / STEP).write_bytes(b"no graph")
    verify(OnnxEngine(changed, open_sessions(changed, "float32")), 1e-3)
    assert (home / STEP).stat().st_size > 1000, "it was made again"


def test_graphs_that_others_use_are_never_deleted(
    family_directory: Callable[[str], Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged ones stay until new ones are there, and then leave all at once."""
    model = load("marian", family_directory("marian"))
    open_sessions(model, "float32")
    (home,) = cache.iterdir()
    others = Sessions(home, "float32")  # it opens graphs when it needs them
    (home / TARGETS).write_bytes(b"no graph")
    seen = []

    def watched(model: TranslationModel, directory: Path) -> None:
        seen.append(others.step)  # opened only now
        export(model, directory)

    monkeypatch.setattr(graphs, "export", watched)
    again = open_sessions(model, "float32", Purpose.TARGETS)
    verify(OnnxEngine(model, again), 1e-3, Purpose.TARGETS)
    assert len(seen) == 1
    verify(OnnxEngine(model, others), 1e-3)
    verify(OnnxEngine(model, Sessions(home, "float32")), 1e-3, Purpose.TARGETS)
    assert list(cache.iterdir()) == [home], "nothing is left beside it"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory"),
        RuntimeException(
            "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during initialization: bad allocation"
        ),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_too_little_memory_says_nothing_of_the_graphs(
    error: Exception, family_directory: Callable[[str], Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load("marian", family_directory("marian"))
    open_sessions(model, "float32")
    before = {path: path.stat().st_ino for path in cache.rglob("*")}
    for name in ("verify", "OnnxEngine"):
        with monkeypatch.context() as patch:
            patch.setattr(graphs, name, Mock(side_effect=error))
            patch.setattr(graphs, "export", lambda *_: pytest.fail("exported again"))
            for engine in ("auto", "onnx"):
                with pytest.raises(NotEnoughMemory, match=r"not enough memory to run .* by onnx"):
                    choose_engine(model, engine)
    assert {path: path.stat().st_ino for path in cache.rglob("*")} == before
    assert choose_engine(model).name == "onnx"


def test_a_cache_that_another_has_put_something_in(family_directory: Callable[[str], Path], cache: Path) -> None:
    """What was exported is used, though it cannot be kept; remains of killed exports go, but not of running ones."""
    model = load("marian", family_directory("marian"))
    open_sessions(model, "float32")
    (home,) = cache.iterdir()
    shutil.rmtree(home)
    home.write_text("in the way")
    for name, age in (("killed", 100_000), ("running", 10)):
        (cache / f".writing-{name}").mkdir()
        os.utime(cache / f".writing-{name}", (time.time() - age,) * 2)
    for purpose in Purpose:
        verify(OnnxEngine(model, open_sessions(model, "float32", purpose)), 1e-3, purpose)
    assert home.is_file()
    assert [each.name for each in cache.glob(".writing-*")] == [".writing-running"]


def test_weights_beside_a_graph_are_its_own(family_directory: Callable[[str], Path], tmp_path: Path) -> None:
    """Beyond 2 GB they are files, and different graphs give them the same names."""
    model = load("marian", family_directory("marian"))
    export(model, tmp_path)
    for name in GRAPHS:
        graph = onnx.load(tmp_path / name)
        onnx.save(graph, tmp_path / name, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
        assert len(list((tmp_path / name).parent.iterdir())) > 1
    for purpose in Purpose:
        verify(OnnxEngine(model, Sessions(tmp_path, "float32")), 1e-3, purpose)
    for name in GRAPHS:
        quantise(tmp_path / name)
        assert list((tmp_path / name).parent.iterdir()) == [tmp_path / name]
    verify(OnnxEngine(model, Sessions(tmp_path, "int8")), 0.3)


def test_a_cache_that_cannot_be_written(
    family_directory: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    model = load("marian", family_directory("marian"))
    for place in ("file", "file/cache"):
        monkeypatch.setenv("KNNMT_CACHE", str(tmp_path / place))
        with pytest.warns(UserWarning, match="set KNNMT_CACHE"):
            verify(OnnxEngine(model, open_sessions(model, "float32")), 1e-3)


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_as_many_rows_as_before_but_of_other_sentences(name: str, family_directory: Callable[[str], Path]) -> None:
    model = load("marian", family_directory("marian"))
    sources = model.codec.encode_sources(SOURCES[:2])
    with torch.inference_mode():
        decoder = choose_engine(model, name).start(sources)
        decoder.step(torch.tensor([list(model.codec.prefix)] * 2))
        decoder.select(torch.tensor([1, 1]))
        found = first_logits(decoder, torch.tensor([[9], [9]]))
        alone = TorchEngine(model).start(sources[1:])
        alone.step(torch.tensor([list(model.codec.prefix)]))
        expected = first_logits(alone, torch.tensor([[9]]))
    np.testing.assert_allclose(found, expected.expand(2, -1), atol=LOG_P)


def test_what_cannot_be_exported_is_run_by_torch(
    family_directory: Callable[[str], Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = family_directory("marian")
    model = load("marian", directory)
    model.hf.config.model_type = "pegasus"
    with pytest.warns(UserWarning, match="no graph of the family pegasus yet.*torch runs it"):
        assert isinstance(choose_engine(model), TorchEngine)
    for engine, precision in (("auto", "int8"), ("onnx", "float32")):
        with pytest.raises(ModelError, match="use --engine torch"):
            choose_engine(model, engine, precision)
    for error in (GraphError("its logits differ"), RuntimeError("out of bounds")):
        monkeypatch.setattr(graphs, "verify", Mock(side_effect=error))
        with pytest.warns(UserWarning, match=f"{error}.*torch runs it"):
            assert isinstance(choose_engine(load("marian", directory)), TorchEngine)
    assert not list(cache.iterdir()), "nothing of it is kept"


def test_without_the_packages(family_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("marian", family_directory("marian"))
    monkeypatch.setattr("knnmt.model.choose.find_spec", lambda name: None)
    assert isinstance(choose_engine(model), TorchEngine)
    with pytest.raises(ModelError, match=r"install knnmt\[fast\]"):
        choose_engine(model, "onnx")
    with pytest.raises(ModelError, match=r"Only the engine onnx computes in int8"):
        choose_engine(model, "torch", "int8")


def sessions(model: TranslationModel, **options: Any) -> Sessions:
    engine = choose_engine(model, **options)
    assert isinstance(engine, OnnxEngine)
    return engine.sessions


def test_a_models_graphs_are_opened_once(family_directory: Callable[[str], Path]) -> None:
    model = load("marian", family_directory("marian"))
    first = sessions(model)
    assert (choose_engine(model).name, choose_engine(model).precision) == ("onnx", "float32")
    assert sessions(model) is first
    assert sessions(model, engine="onnx", precision="float32") is first
    assert sessions(model, precision="float32", made_with="int8") is first
    assert sessions(model, purpose=Purpose.TARGETS) is not first
    assert sessions(model, made_with="int8").precision == "int8"
    assert choose_engine(model, "torch", made_with="int8").precision == "float32"
    assert isinstance(choose_engine(model, "torch"), TorchEngine)


def test_a_model_goes_when_nobody_uses_it(family_directory: Callable[[str], Path]) -> None:
    """What is kept of its engines does not hold it."""
    model = load("marian", family_directory("marian"))
    choose_engine(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", ["torch", "onnx"])
@pytest.mark.parametrize("family", ["marian", "t5", "t5-gated"])
def test_logits_of_some_tokens(family: str, name: str, precision: str, family_directory: Callable[[str], Path]) -> None:
    """In any order, they are columns of all logits, in steps and over whole targets."""
    if (name, precision) == ("torch", "int8"):
        pytest.skip("torch has no int8")
    model = load(family, family_directory(family))
    engine = choose_engine(model, name, precision)
    tokens = torch.randperm(model.vocab_size, generator=torch.Generator().manual_seed(1))[:40]
    with torch.inference_mode():
        decoder = engine.start(model.codec.encode_sources(SOURCES))
        states = decoder.step(torch.tensor([list(model.codec.prefix)] * len(SOURCES)))
        ways: list[Callable[[Tensor | None], Logits]] = [
            lambda some: decoder.project(states, some),
            lambda some: engine.project(states.hidden, some),
        ]
        for project in ways:
            whole = project(None).values.clone()
            few = project(tokens)
            assert few.tokens is not None
            assert whole.shape == (len(SOURCES), model.vocab_size)
            torch.testing.assert_close(few.values, whole[:, tokens], **STATES)
            torch.testing.assert_close(
                few.of(tokens[None, :3].expand(len(SOURCES), -1)), whole[:, tokens[:3]], **STATES
            )


def test_half_precision_is_for_torch(family_directory: Callable[[str], Path]) -> None:
    model = load("marian", family_directory("marian"))
    model.hf.half()
    assert isinstance(choose_engine(model), TorchEngine)
    with pytest.raises(ModelError, match="runs float32 models on a CPU"):
        choose_engine(model, "onnx")
