"""Names of models: what is found, and the sentence for what is not."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, GPT2Config, GPT2LMHeadModel, MarianMTModel

from knnmt.errors import ModelError, NotEnoughMemory
from knnmt.model.loading import load_pretrained, resolve


def test_a_directory_wins_over_the_bundled_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family_directory: Callable[[str], Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    path, local = resolve("de-en-small")
    assert local
    assert Path(path).is_absolute()
    (tmp_path / "de-en-small").symlink_to(family_directory("marian"))
    assert resolve("de-en-small") == ("de-en-small", True)


def test_what_is_no_directory_is_a_hub_id() -> None:
    assert resolve("Helsinki-NLP/opus-mt-de-en") == ("Helsinki-NLP/opus-mt-de-en", False)


@pytest.mark.parametrize("name", ["/nowhere/model", "./nowhere", "a/b/c"])
def test_a_missing_directory(name: str) -> None:
    with pytest.raises(ModelError, match="no model directory"):
        resolve(name)


def test_a_foreign_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_pretrained(str(tmp_path))


def test_a_directory_whose_name_is_not_utf8(tmp_path: Path) -> None:
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/f\xfcnf"))
    place.mkdir()
    with pytest.raises(ModelError, match="is not a UTF-8 name"):
        load_pretrained(str(place))


def test_a_damaged_directory(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    with pytest.raises(ModelError, match="could not be read"):
        load_pretrained(str(tmp_path))


@pytest.mark.parametrize("wrapped", [False, True])
def test_too_little_memory_is_no_wrong_name(
    wrapped: bool, monkeypatch: pytest.MonkeyPatch, family_directory: Callable[[str], Path]
) -> None:
    def load(*_: object, **__: object) -> None:
        try:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory")
        except RuntimeError as error:
            if wrapped:
                raise OSError("Unable to load weights from the checkpoint file") from error
            raise

    monkeypatch.setattr(AutoModelForSeq2SeqLM, "from_pretrained", load)
    with pytest.raises(NotEnoughMemory, match="not enough memory to load the model"):
        load_pretrained(str(family_directory("marian")))


def test_a_device_that_is_too_small_is_there(
    monkeypatch: pytest.MonkeyPatch, family_directory: Callable[[str], Path]
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(MarianMTModel, "to", full)
    with pytest.raises(NotEnoughMemory, match="not enough memory to hold the model on cuda"):
        load_pretrained(str(family_directory("marian")), "cuda")


def test_a_model_without_an_encoder(tmp_path: Path) -> None:
    config = GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=10)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)  # type: ignore[no-untyped-call]
    with pytest.raises(ModelError, match="gpt2 model without an encoder"):
        load_pretrained(str(tmp_path))


def test_half_precision_checkpoints_are_loaded_in_float32(
    tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    source = family_directory("marian")
    for file in source.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    AutoModelForSeq2SeqLM.from_pretrained(source, dtype=torch.float16).save_pretrained(tmp_path)
    model, _ = load_pretrained(str(tmp_path), "cpu")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_local_model_needs_no_network(
    monkeypatch: pytest.MonkeyPatch, family_directory: Callable[[str], Path]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("marian", "nllb", "t5"):
        load_pretrained(str(family_directory(name)), "auto")
    load_pretrained("de-en-small", "auto")
