"""What is written: a model that anything loads; after a kill, what can go on; one sentence if it cannot be written."""

import errno
import json
import os
import resource
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from families import LANGUAGES
from safetensors.torch import load_file
from sentences import SENTENCES
from tolerances import NLL
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from worlds import load

from knnmt.corpus import Pair
from knnmt.errors import FinetuneError
from knnmt.finetuning import FinetuneReport, checkpoint, tuning
from knnmt.finetuning.checkpoint import Checkpoint, disk_errors
from knnmt.finetuning.trainer import dev_nll
from knnmt.model import TorchEngine

Tune = Callable[..., FinetuneReport]
KillAt = Callable[[int], None]
FEW = [Pair(source, target, "sentences", 1) for source, target in SENTENCES[20:22]]  # that the models do not know


@pytest.mark.parametrize("family", ["marian", "fsmt", "fsmt-separate", "m2m100"])
def test_loads_and_translates(family: str, tune: Tune, out: Path, family_directory: Callable[[str], Path]) -> None:
    report = tune(family, train=FEW, dev=FEW, learning_rate=0.01, max_updates=40, label_smoothing=0.0)
    base, tuned = load(family, family_directory(family)), load(family, out)
    assert tuned.tokenizer_fingerprint == base.tokenizer_fingerprint
    assert tuned.fingerprint != base.fingerprint
    assert tuned.codec.prefix == base.codec.prefix
    assert tuned.codec.max_length == base.codec.max_length
    sources, targets = [pair.source for pair in FEW], [pair.target for pair in FEW]
    codec = tuned.codec
    found = dev_nll(TorchEngine(tuned), codec.encode_sources(sources), codec.encode_targets(targets))
    assert found == pytest.approx(report.best.nll, abs=NLL)

    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    source_lang, target_lang = LANGUAGES[family]
    options: dict[str, Any] = {}
    if source_lang is not None:
        tokenizer.src_lang = source_lang
        options["forced_bos_token_id"] = tokenizer.get_lang_id(target_lang)
    rows = model.generate(**tokenizer(sources, padding=True, return_tensors="pt"), num_beams=1, **options)
    assert tokenizer.batch_decode(rows, skip_special_tokens=True) == targets


def test_report_is_beside_the_model(tune: Tune, out: Path) -> None:
    report = tune()
    assert json.loads((out / "finetune.json").read_text("utf-8")) == report.to_json()
    assert FinetuneReport.from_json(report.to_json()) == report
    size = sum(each.numel() for each in load_file(out / "model.safetensors").values())
    assert report.bytes >= 4 * report.trained_parameters
    assert report.trained_parameters <= size
    assert (report.train_sentences, report.too_long) == (32, {"train": 0, "dev": 0})


def test_dev_is_bounded(tune: Tune, out: Path) -> None:
    whole = tune(max_updates=1)
    part = tune(to=out.with_name("part"), max_updates=1, dev_tokens=50)
    assert whole.dev_sentences == 18
    assert 1 <= part.dev_sentences < 10


def test_finished_is_not_repeated(tune: Tune, out: Path, kill_at: KillAt) -> None:
    report = tune()
    kill_at(0)
    assert tune() == report
    for other in ({"seed": 2}, {"max_updates": 9}):
        with pytest.raises(FinetuneError, match="exists already and is not the result of this"):
            tune(**other)
    assert os.listdir(out.parent) == [out.name]


def test_something_else_is_there(tune: Tune, out: Path) -> None:
    out.mkdir()
    (out / "thesis.txt").write_text("text")
    with pytest.raises(FinetuneError, match="exists already and is not the result of this"):
        tune()
    assert (out / "thesis.txt").read_text() == "text"
    assert os.listdir(out.parent) == [out.name]


def test_unfinished_of_another_run(tune: Tune, kill_at: KillAt) -> None:
    kill_at(6)
    with pytest.raises(KeyboardInterrupt):
        tune()
    with pytest.raises(FinetuneError, match="unfinished fine-tuning of another model, corpus or recipe"):
        tune(learning_rate=0.1)
    assert tune().updates == 10


def test_two_at_a_time(tune: Tune, out: Path) -> None:
    with Checkpoint(out.with_name("tuned.unfinished")), pytest.raises(FinetuneError, match="Another process uses"):
        tune()
    assert tune().updates == 10


class Killed(BaseException):
    """A process that is killed does nothing more; the system releases its lock."""


def kill(monkeypatch: pytest.MonkeyPatch, where: Any, function: str, call: int, after: bool) -> None:
    real, calls = getattr(where, function), count(1)

    def killed(*arguments: Any) -> Any:
        last = next(calls) == call
        if last and not after:
            raise Killed
        result = real(*arguments)
        if last:
            raise Killed
        return result

    monkeypatch.setattr(where, function, killed)
    monkeypatch.setattr(Checkpoint, "__exit__", lambda self, *_: os.close(self._lock))


@pytest.mark.to_the_bit
@pytest.mark.parametrize(
    ("where", "function", "call", "after"),
    [
        (checkpoint, "save_file", 1, True),  # the first weights
        (checkpoint, "save_file", 4, False),  # the moments of the second save
        (checkpoint, "write_json", 2, True),  # old files are still there
        (tuning, "write_json", 1, False),  # the model is written, but not its report
        (Path, "rename", 1, False),
        (Path, "rename", 1, True),  # everything is there
    ],
)
def test_kill(
    tune: Tune, out: Path, monkeypatch: pytest.MonkeyPatch, where: Any, function: str, call: int, after: bool
) -> None:
    """Whatever was not yet done, the next call does."""
    short = {"max_updates": 4, "validate_every": 2}
    whole = tune(to=out.with_name("whole"), **short)
    with monkeypatch.context() as patched:
        kill(patched, where, function, call, after)
        with pytest.raises(Killed):
            tune(**short)
    report = tune(**short)
    assert [each.nll for each in report.history] == [each.nll for each in whole.history]
    expected = load_file(out.with_name("whole") / "model.safetensors")
    for name, weight in load_file(out / "model.safetensors").items():
        assert torch.equal(weight, expected[name])
    assert sorted(os.listdir(out.parent)) == ["tuned", "whole"]


def test_full_disk(tune: Tune, out: Path) -> None:
    """Real writes that fail half-way: a limit on the size of files."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (10, 100_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
        try:
            with pytest.raises(
                FinetuneError, match=f"{os.strerror(errno.EFBIG)}.*run the same command again"
            ) as caught:
                tune()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "\n" not in str(caught.value)
        assert os.listdir(out.parent) == []
    assert tune().updates == 10


def test_directory_that_cannot_be_made(tune: Tune, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, mode: int = 0o777) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", refuse)
        with pytest.raises(FinetuneError, match=r"tuned\.unfinished \(Permission denied\); fix this"):
            tune()
    out.write_text("text")
    with pytest.raises(FinetuneError, match="Not a directory"):
        tune(to=out / "deeper")


def test_damaged_state(tune: Tune, out: Path, kill_at: KillAt) -> None:
    kill_at(6)
    with pytest.raises(KeyboardInterrupt):
        tune()
    (weights,) = out.with_name("tuned.unfinished").glob("weights-5.*")
    weights.write_bytes(b"12345678")
    with pytest.raises(FinetuneError, match=r"tuned\.unfinished \("):
        tune()


def test_errors_of_libraries_in_rust(out: Path) -> None:
    with pytest.raises(FinetuneError, match="No space left"), disk_errors(out):
        raise Exception("No space left on device (os error 28)")
    with pytest.raises(ValueError, match="a mistake"), disk_errors(out):
        raise ValueError("a mistake")
