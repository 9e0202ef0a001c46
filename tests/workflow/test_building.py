"""The store a build makes against one made sentence by sentence; builds that are killed; what is left out."""

import inspect
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentences import SENTENCES
from tolerances import INT8_LOG_P, INT8_STATES, LOG_P, STORED, Tolerance

import knnmt
from knnmt.corpus import Corpus, Pair, catalogue
from knnmt.corpus.hashing import PairHashes, pair_hashes
from knnmt.datastore import SourceVectors, Store, StoreWriter, verify_files
from knnmt.errors import KnnmtError, ModelError, StoreError
from knnmt.model import Engine, States, TranslationModel
from knnmt.workflow import build, build_with_report
from knnmt.workflow import building as module

WriteCorpus = Callable[..., list[Path]]
TOO_LONG = ("Haus " * 400, "house")
EMPTY = ("", "nothing")


@pytest.fixture(autouse=True)
def small_blocks(model: TranslationModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of several batches from a few sentences."""
    real = Engine.batches
    monkeypatch.setattr(module, "BLOCK_TOKENS", 100)
    monkeypatch.setattr(module, "_GULP", 3)
    monkeypatch.setattr(Engine, "batches", lambda self, sources, targets: real(self, sources, targets, 90))


class Killed(BaseException):
    pass


def kill_at_block(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, blocks = Engine.batches, 0

    def batches(self: Engine, sources: list[list[int]], targets: list[list[int]]) -> Iterator[States]:
        nonlocal blocks
        blocks += 1
        for states in real(self, sources, targets):
            yield states
            if blocks == number:
                raise Killed

    monkeypatch.setattr(Engine, "batches", batches)


def count_sentences(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sentences each call gives to the model."""
    real, counts = Engine.batches, []

    def batches(self: Engine, sources: list[list[int]], targets: list[list[int]]) -> Iterator[States]:
        counts.append(len(sources))
        return real(self, sources, targets)

    monkeypatch.setattr(Engine, "batches", batches)
    return counts


def identity(store: Store) -> list[tuple[object, ...]]:
    """Every pair with its provenance, in the store's order."""
    rows: list[tuple[object, ...]] = []
    for segment in store.segments:
        ids = (segment.number << 32) + np.arange(len(segment))
        for place, value in zip(store.provenance(ids), segment.values.tolist(), strict=True):
            rows.append((place.source, place.target, place.origin, place.line, place.position, value))
    return rows


@pytest.mark.parametrize(
    ("engine", "precision", "near", "near_log_p"),
    [
        ("torch", "auto", STORED, LOG_P),
        ("onnx", "float32", STORED, LOG_P),
        ("onnx", "int8", INT8_STATES, INT8_LOG_P),
    ],
)
@torch.inference_mode()
def test_a_build_gives_what_sentence_by_sentence_gives(
    tmp_path: Path,
    model: TranslationModel,
    write_corpus: WriteCorpus,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    precision: str,
    near: Tolerance,
    near_log_p: float,
) -> None:
    lines = [*SENTENCES[:7], TOO_LONG, EMPTY, *SENTENCES[7:20], (" ", " "), *SENTENCES[20:30], TOO_LONG]
    paths = write_corpus(lines)
    counts = count_sentences(monkeypatch)
    report = build_with_report(tmp_path / "store", paths, model, engine=engine, precision=precision)
    assert (report.store.model.engine, report.store.model.precision) == (engine, precision.replace("auto", "float32"))
    assert (report.too_long, report.left_out, report.known, report.resumed) == (2, {"empty": 2}, 0, 0)
    assert report.sentences == report.store.sentence_count == sum(counts) == 30
    assert len(counts) > 3, "several blocks"

    (segment,) = report.store.segments
    tokenizer, hf = model.codec.tokenizer, model.hf
    kept = [(number, pair) for number, pair in enumerate(lines, start=1) if pair in SENTENCES]
    row = 0
    for sentence, (number, (source, target)) in enumerate(kept):
        tokens = tokenizer(text_target=target).input_ids
        output = hf(
            input_ids=torch.tensor([tokenizer(source).input_ids]),
            decoder_input_ids=torch.tensor([[hf.config.decoder_start_token_id, *tokens[:-1]]]),
            output_hidden_states=True,
        )
        log_p = output.logits[0].double().log_softmax(1)
        rows = slice(row, row + len(tokens))
        np.testing.assert_allclose(segment.keys[rows], output.decoder_hidden_states[-1][0], **near)
        assert segment.values[rows].tolist() == tokens
        np.testing.assert_allclose(segment.confidence[rows], log_p[range(len(tokens)), tokens], atol=near_log_p)
        assert segment.sentence[rows].tolist() == [sentence] * len(tokens)
        assert segment.position[rows].tolist() == list(range(len(tokens)))
        for place in report.store.provenance((segment.number << 32) + np.arange(rows.start, rows.stop)):
            assert (place.source, place.target, place.origin, place.line) == (source, target, str(paths[0]), number)
        row += len(tokens)
    assert row == len(segment) == report.entries == report.store.entry_count
    assert verify_files(report.store.path) == []


def test_adding_to_a_store(tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus) -> None:
    first = build(tmp_path / "store", write_corpus(SENTENCES[:6], "first"), model.name, device="cpu")
    before = identity(first)
    source, target = SENTENCES[2]
    known = [SENTENCES[0], (f"  {source.upper()}", target.replace(" ", "  "))]
    paths = write_corpus([*SENTENCES[6:20], *known], "second")
    report = build_with_report(tmp_path / "store", paths, origin="more", device="cpu")  # the model is the store's own
    assert report.known == 2
    assert report.sentences == 14
    alone = build(tmp_path / "alone", write_corpus(SENTENCES[6:20], "new"), model, origin="more")
    added = identity(alone)
    assert {row[2] for row in added} == {"more"}
    assert sorted(identity(report.store)) == sorted(before + added)
    assert report.store.entry_count == len(before) + report.entries


def test_the_same_corpus_again_adds_nothing(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_corpus([*SENTENCES[:6], SENTENCES[0]])
    first = build_with_report(tmp_path / "store", paths, model)
    assert (first.sentences, first.known) == (7, 0), "what a corpus repeats it means to repeat"
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "teacher_forced", lambda *_: pytest.fail("the model is run"))
        again = build_with_report(tmp_path / "store", paths, model, force=True)
    assert (again.entries, again.sentences, again.known) == (0, 0, 7)
    assert again.store.manifest == first.store.manifest
    doubled = build_with_report(tmp_path / "store", paths, model, keep_duplicates=True)
    assert (doubled.sentences, doubled.known) == (7, 7)
    assert doubled.store.entry_count == 2 * first.store.entry_count


@pytest.mark.to_the_bit
@pytest.mark.parametrize("adding", [False, True], ids=["first build", "adding"])
@pytest.mark.parametrize("way", ["exception", "kill"])
def test_a_killed_build_is_taken_up(
    tmp_path: Path,
    model: TranslationModel,
    write_corpus: WriteCorpus,
    monkeypatch: pytest.MonkeyPatch,
    adding: bool,
    way: str,
) -> None:
    paths = write_corpus([*SENTENCES[8:12], TOO_LONG, *SENTENCES[5:30], TOO_LONG])
    before = None
    for name in ("whole", "store"):
        if adding:
            before = build(tmp_path / name, write_corpus(SENTENCES[:8], "first"), model)
    whole = build_with_report(tmp_path / "whole", paths, model)
    with monkeypatch.context() as patch:
        if way == "kill":  # which tidies nothing up
            patch.setattr(StoreWriter, "_leave", lambda self: self._lock.release())
        kill_at_block(3, patch)
        passed = count_sentences(patch)
        with pytest.raises(Killed):
            build_with_report(tmp_path / "store", paths, model)
    finished = sum(passed[:2])

    if before is None:
        with pytest.raises(StoreError, match="unfinished build; run the same"):
            Store.open(tmp_path / "store")
    else:
        assert Store.open(tmp_path / "store").manifest == before.manifest
    counts = count_sentences(monkeypatch)
    report = build_with_report(tmp_path / "store", paths, model)
    assert sum(counts) == whole.sentences - finished < whole.sentences, "finished blocks do not go through again"
    # checksums of keys and all: blocks are the same, so the model has the same batches
    assert report.store.manifest.segments == whole.store.manifest.segments
    assert report.resumed > 0
    figures = [(r.entries, r.sentences, r.too_long, r.left_out, r.known) for r in (whole, report)]
    assert figures[0] == figures[1]
    assert report.too_long == 2
    assert report.known == (3 if adding else 0)
    assert not (tmp_path / "store/staging").exists()


def test_no_index_is_made_of_damaged_keys(tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus) -> None:
    store = build(tmp_path / "store", write_corpus(SENTENCES[:12]), model)
    keys = store.segments[0].path / "keys.npy"
    content = bytearray(keys.read_bytes())
    content[-100] ^= 1
    keys.write_bytes(content)
    for corpus in ([], write_corpus(SENTENCES[12:20], "more")):
        with pytest.raises(StoreError, match=r"keys.npy is damaged"):
            build(tmp_path / "store", corpus, model, index="ivf")
    assert Store.open(tmp_path / "store").manifest == store.manifest


def test_source_vectors_are_made_with_the_store_and_made_again(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus
) -> None:
    path = tmp_path / "store"
    build(path, write_corpus(SENTENCES[:12]), model)
    store = build(path, write_corpus(SENTENCES[12:20], "more"), model)  # rewrites the small segment
    assert len(store.segments) == 1
    texts = store.segments[0].sentence_table["source"].to_pylist()
    assert set(texts) == {source for source, _ in SENTENCES[:20]}
    expected = SourceVectors.of(model.codec.encode_sources(texts))
    for damage in (None, shutil.rmtree):
        if damage:
            damage(path / "sources")
        store = build(path, [], model)
        for name in SourceVectors.COLUMNS:
            assert getattr(store.source_vectors[0], name).tolist() == getattr(expected, name).tolist()
    assert verify_files(path) == []


def test_another_corpus_does_not_take_up_foreign_blocks(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        kill_at_block(3, patch)
        with pytest.raises(Killed):
            build(tmp_path / "store", write_corpus(SENTENCES[:30]), model)
    report = build_with_report(tmp_path / "store", write_corpus(SENTENCES[1:31]), model)
    assert report.resumed == 0
    assert [row[0] for row in identity(report.store)[:1]] == [SENTENCES[1][0]]
    assert report.sentences == 30


def test_the_corpus_is_streamed(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a block is in the model, no more pairs than its own and the next few are alive."""
    alive: weakref.WeakSet[Pair] = weakref.WeakSet()
    most = 0

    class Watched(Pair):  # a subclass without slots can be referred to weakly
        pass

    real_pairs, real_batches = Corpus.__iter__, Engine.batches

    def pairs(self: Corpus) -> Iterator[Pair]:
        for pair in real_pairs(self):
            watched = Watched(pair.source, pair.target, pair.origin, pair.line)
            alive.add(watched)
            yield watched

    def batches(self: Engine, sources: list[list[int]], targets: list[list[int]]) -> Iterator[States]:
        nonlocal most
        most = max(most, len(alive) - len(sources))
        return real_batches(self, sources, targets)

    monkeypatch.setattr(Corpus, "__iter__", pairs)
    monkeypatch.setattr(Engine, "batches", batches)
    report = build_with_report(tmp_path / "store", write_corpus([*SENTENCES, TOO_LONG, *SENTENCES]), model)
    assert report.sentences == 2 * len(SENTENCES)
    assert most <= module._GULP + 1


def test_nothing_but_over_long_sentences(
    tmp_path: Path, model: TranslationModel, store: Store, write_corpus: WriteCorpus
) -> None:
    paths = write_corpus([TOO_LONG] * 5)
    with pytest.raises(StoreError, match="nothing to store"):
        build(tmp_path / "new", paths, model)
    assert not (tmp_path / "new").exists()
    report = build_with_report(store.path, paths, model)
    assert (report.too_long, report.entries, report.sentences) == (5, 0, 0)
    assert report.store.manifest == store.manifest


def test_a_store_knows_its_key_layer(tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus) -> None:
    paths = write_corpus(SENTENCES[:3])
    build(tmp_path / "store", paths, model.name, key_layer="ffn_input", device="cpu")
    more = write_corpus(SENTENCES[3:5], "more")
    grown = build(tmp_path / "store", more, model.name, device="cpu")
    assert grown.model.key_layer == "ffn_input"
    assert grown.sentence_count == 5
    with pytest.raises(StoreError, match="key layer 'ffn_input', not 'output'"):
        build(tmp_path / "store", more, key_layer="output", device="cpu")
    assert Store.open(tmp_path / "store").manifest == grown.manifest


@pytest.mark.parametrize(
    ("options", "error"),
    [({"index": "tree"}, StoreError), ({"key_layer": "middle"}, ModelError), ({"model": None}, ModelError)],
)
def test_a_wrong_option_is_told_before_anything_runs(
    tmp_path: Path,
    model: TranslationModel,
    write_corpus: WriteCorpus,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    error: type[KnnmtError],
) -> None:
    monkeypatch.setattr(Engine, "batches", lambda *_: pytest.fail("the model runs"))
    with pytest.raises(error):
        build(tmp_path / "store", write_corpus(SENTENCES), **({"model": model.name} | options))  # type: ignore[arg-type]
    assert not (tmp_path / "store").exists()


def test_a_store_keeps_its_precision(tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus) -> None:
    paths, more = write_corpus(SENTENCES[:8]), write_corpus(SENTENCES[8:], "more")
    assert build(tmp_path / "auto", paths, model).model.precision == "int8"
    assert build(tmp_path / "auto", more, model).model.precision == "int8"
    assert build(tmp_path / "exact", paths, model, precision="float32").model.precision == "float32"
    grown = build(tmp_path / "exact", more, model, engine="torch")
    assert grown.model.precision == "float32"
    with pytest.raises(StoreError, match="was made with precision 'int8', not 'float32'"):
        build(tmp_path / "auto", more, model, engine="torch")
    with pytest.raises(StoreError, match="was made with precision 'float32', not 'int8'"):
        build(tmp_path / "exact", more, model, precision="int8")


@pytest.mark.parametrize(("option", "value"), [("engine", "generate"), ("precision", "int4")])
def test_an_engine_that_builds_nothing(
    option: str, value: str, tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus
) -> None:
    with pytest.raises(ModelError, match=f"There is no {option} {value}; choose one of"):
        build(tmp_path / "store", write_corpus(SENTENCES[:3]), model, **{option: value})  # type: ignore[arg-type]
    assert not (tmp_path / "store").exists()


def test_a_pair_is_hashed_once(
    model: TranslationModel, write_corpus: WriteCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find those that are in the store already, and to store them."""
    build(tmp_path / "store", write_corpus(SENTENCES[:4]), model)
    hashed: list[tuple[str, str]] = []

    def counted(source: str, target: str) -> PairHashes:
        hashed.append((source, target))
        return pair_hashes(source, target)

    monkeypatch.setattr("knnmt.corpus.pair.pair_hashes", counted)
    report = build_with_report(tmp_path / "store", write_corpus(SENTENCES[2:12], "more"), model, force=True)
    assert (report.known, report.sentences) == (2, 8)
    assert hashed == list(SENTENCES[2:12])


def test_a_catalogue_is_parsed_once(model: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked, sampled, built and taken up again after a kill: each build parses it once."""
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: de\\n"\n'
    entries = "".join(f'\nmsgid "{target}"\nmsgstr "{source}"\n' for source, target in SENTENCES)
    (tmp_path / "po").mkdir()
    (tmp_path / "po" / "de.po").write_text(header + entries, encoding="utf-8")
    parsed: list[object] = []
    parse = catalogue._parse

    def counted(path: Path) -> Any:
        parsed.append(path)
        return parse(path)

    monkeypatch.setattr(catalogue, "_parse", counted)
    with monkeypatch.context() as patch:
        kill_at_block(2, patch)
        with pytest.raises(Killed):
            build(tmp_path / "store", tmp_path / "po", model)
    assert len(parsed) == 1
    report = build_with_report(tmp_path / "store", tmp_path / "po", model)
    assert len(parsed) == 2
    assert report.resumed > 0
    assert report.store.sentence_count == len(SENTENCES)


def test_the_library_is_silent(
    model: TranslationModel,
    write_corpus: WriteCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("knnmt.progress.QUIET_INTERVAL", 0.0)
    build(tmp_path / "store", write_corpus(SENTENCES), model, index="ivf")
    assert capfd.readouterr() == ("", "")


def test_help_shows_the_arguments() -> None:
    shown = inspect.signature(knnmt.build)
    assert list(shown.parameters)[:3] == ["store", "corpus", "model"]
    assert "keep_duplicates" in shown.parameters
    assert shown.return_annotation is Store
    assert "directory, hub id or the bundled" in (inspect.getdoc(knnmt.build) or "")
