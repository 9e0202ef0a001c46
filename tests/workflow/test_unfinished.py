"""Builds that were stopped: what is ready stays until the same command finishes it, or it is dropped."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sentences import SENTENCES

from knnmt.datastore import StoreWriter
from knnmt.model import TranslationModel
from knnmt.workflow import build, build_with_report, info
from knnmt.workflow import building as module

WriteCorpus = Callable[..., list[Path]]


def stopped_build(path: Path, corpus: list[Path], model: TranslationModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has finished a block of its corpus."""
    with monkeypatch.context() as patch:
        patch.setattr(module, "BLOCK_TOKENS", 60)
        patch.setattr(module, "_GULP", 2)
        patch.setattr(StoreWriter, "plan", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build(path, corpus, model)


def test_an_unfinished_build_stays_when_another_corpus_is_added(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, unfinished = tmp_path / "store", write_corpus(SENTENCES[10:20], "unfinished")
    build(path, write_corpus(SENTENCES[:4], "first"), model)
    stopped_build(path, unfinished, model, monkeypatch)
    (listed,) = info(path)["unfinished"]
    assert listed["corpus"] == [str(file) for file in unfinished]
    assert listed["sentences"] > 0
    build(path, write_corpus(SENTENCES[20:24], "other"), model)
    assert info(path)["unfinished"] == [listed]
    report = build_with_report(path, unfinished, model)
    assert report.resumed > 0
    assert report.store.sentence_count == 18
    assert info(path)["unfinished"] == []


def test_an_unfinished_build_whose_pairs_came_otherwise_meanwhile(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, unfinished = tmp_path / "store", write_corpus(SENTENCES[10:20], "unfinished")
    build(path, write_corpus(SENTENCES[:4], "first"), model)
    stopped_build(path, unfinished, model, monkeypatch)
    build(path, write_corpus(SENTENCES[10:14], "other"), model)
    report = build_with_report(path, unfinished, model)
    assert (report.resumed, report.known, report.sentences) == (0, 4, 6)
    assert report.store.sentence_count == 14


def test_an_unfinished_build_is_dropped_when_asked(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    before = build(path, write_corpus(SENTENCES[:4], "first"), model)
    stopped_build(path, write_corpus(SENTENCES[10:20], "unfinished"), model, monkeypatch)
    after = build(path, [], drop_unfinished=True)
    assert after.manifest == before.manifest
    assert not (path / "staging").exists()
