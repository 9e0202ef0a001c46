"""From a corpus to a store: the domain's every target token becomes a key and a value."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ParamSpec

import numpy as np
from numpy.typing import NDArray

from knnmt.corpus import Corpus, Pair, pair_hash
from knnmt.datastore import StagedSegment, Store, StoreWriter
from knnmt.datastore.files import check_name
from knnmt.decoding import load_recorded, record_of
from knnmt.errors import ModelError
from knnmt.model import TranslationModel, make_runner
from knnmt.progress import Meter, progress
from knnmt.ranges import ranges
from knnmt.search import build_index, kept_kind, needs_index

Options = ParamSpec("Options")

BLOCK_TOKENS = 65_536  # what a killed build may lose, and what is held in memory
NEW_STORE_PRECISION = "int8"  # where onnx runs the model; translating then does the same
_GULP = 512  # pairs tokenised at once


@dataclass(frozen=True)
class BuildReport:
    """What a build did.

    Attributes:
        store: as it is now
        pairs, sentences: added
        resumed: pairs that a killed build had left behind, ready
        too_long: sentences left out because they are longer than the model takes
        left_out: lines or entries by why they were left out: empty, fuzzy, obsolete, untranslated
        known: sentence pairs that were in the store already, and are now there again
    """

    store: Store
    pairs: int
    sentences: int
    resumed: int
    too_long: int
    left_out: dict[str, int]
    known: int


@dataclass(frozen=True)
class _Block:
    """Whole sentences, encoded, that go through the model and to the disk together."""

    pairs: list[Pair]
    sources: list[list[int]]
    targets: list[list[int]]
    consumed: int
    too_long: int


def build_with_report(
    store: str | Path,
    corpus: Sequence[str | Path] | str | Path,
    model: str | TranslationModel | None = None,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    source_prefix: str | None = None,
    key_layer: str | None = None,
    origin: str | None = None,
    limit: int | None = None,
    index: str = "auto",
    engine: str = "auto",
    precision: str = "auto",
    device: str = "auto",
) -> BuildReport:
    """Make a store from a corpus, or add to one, and tell what was done; without a corpus, make its index anew.

    A build that is killed leaves the store as it was; the same call takes up its finished blocks.

    Args:
        store: the store's directory
        corpus: files; plain text in pairs, source first; a single file needs no list
        model: directory, hub id or the bundled `de-en-small`; an existing store knows its own
        source_lang, target_lang: for multilingual models, as they spell them
        source_prefix: put before every source, for T5
        key_layer: `output`, as by default, or `ffn_input`
        origin: a name for where the pairs come from, in place of the file's
        limit: use only the first so many lines
        index: `auto`, `flat` (exact) or `ivf`
        engine: what runs the model: `auto`, `onnx` (fast on a CPU) or `torch`
        precision: `float32` or `int8`; `auto` is the store's own, and for a new one int8 where onnx runs the model
    """
    needs_index((), frozenset(), index)  # a wrong name is told before anything runs
    check_name(Path(store))
    exists = (Path(store) / "manifest.json").exists()
    if exists and not corpus:
        return BuildReport(_reindexed(Path(store), index), 0, 0, 0, 0, {}, 0)
    if not isinstance(model, TranslationModel):
        asked = {"source_lang": source_lang, "target_lang": target_lang}
        asked |= {"source_prefix": source_prefix, "key_layer": key_layer}
        model = _model_for(Path(store), model, device, {name: v for name, v in asked.items() if v is not None})
    pairs = Corpus(corpus, languages=model.codec.languages, origin=origin, limit=limit)
    summary = pairs.scan()  # checked whole before the model, which may take hours on it, sees the first sentence
    made_with = Store.open(store).model.precision if exists else NEW_STORE_PRECISION
    runner = make_runner(model, engine, precision, "passes", made_with)
    model, record = model.run_by(runner), record_of(model, runner)
    with StoreWriter(store, record) as writer:
        key = json.dumps([summary.digest, record.to_json(), origin], sort_keys=True)
        staged = writer.stage(hashlib.blake2b(key.encode(), digest_size=16).hexdigest())
        resumed, counts = staged.rows, staged.state
        if not staged.committed:
            with progress("Building", total=summary.pairs, unit="tokens") as meter:
                counts = _fill(staged, model, pairs, writer.store, meter)
        plan = writer.plan(staged)
        before = writer.store.index_directory if writer.store else None
        covered = writer.store.covered_segments() if writer.store else frozenset()
        lost = before is not None and not covered
        place = None
        if lost or needs_index(plan.segments, covered, index):
            place = writer.new_directory("index")
            build_index(plan.segments, place, kept_kind(before, index))
        return BuildReport(
            pairs=staged.rows,
            sentences=staged.sentences,
            store=writer.commit(plan, index=place),
            resumed=resumed,
            too_long=counts["too_long"],
            left_out=summary.left_out,
            known=counts["known"],
        )


def _store_of(run: Callable[Options, BuildReport]) -> Callable[Options, Store]:
    def build(*arguments: Options.args, **options: Options.kwargs) -> Store:
        """Make a store from a corpus, or add to one; the options are those of `build_with_report`.

        Example:
            knnmt.build("memory", ["train.de", "train.en"], model="Helsinki-NLP/opus-mt-de-en")
        """
        return run(*arguments, **options).store

    return build


build = _store_of(build_with_report)


def _model_for(path: Path, name: str | None, device: str, asked: dict[str, str]) -> TranslationModel:
    """The model asked for; what an existing store knows of its own need not be said again."""
    if not (path / "manifest.json").exists():
        if name is None:
            raise ModelError(f"{path} is a new store; say which model it is for with --model.")
        return TranslationModel.load(name, device=device, **asked)
    return load_recorded(Store.open(path).model, device, name, **asked)


def _reindexed(path: Path, kind: str) -> Store:
    """The store with a new index: of another kind, or in place of one that was lost or damaged."""
    with StoreWriter(path, Store.open(path).model) as writer:
        assert writer.store is not None
        place = writer.new_directory("index")
        build_index(writer.store.segments, place, kept_kind(writer.store.index_directory, kind))
        return writer.commit(index=place)


def _fill(
    staged: StagedSegment, model: TranslationModel, corpus: Corpus, store: Store | None, meter: Meter
) -> dict[str, int]:
    """Pass what the corpus has left through the model, block by block; what was counted on the way."""
    counts = {"consumed": 0, "too_long": 0, "known": 0} | staged.state
    meter.skip(counts["consumed"])
    for block in _blocks(model, islice(corpus, counts["consumed"], None)):
        counts["consumed"] += block.consumed
        counts["too_long"] += block.too_long
        meter.advance(block.too_long)
        if not block.pairs:
            continue
        if store is not None:
            hashes = np.array([pair_hash(pair.source, pair.target) for pair in block.pairs], dtype=np.uint64)
            counts["known"] += int(store.contains(hashes).sum())
        keys, values, confidence, lengths = _encode(model, block, meter)
        staged.append(keys, values, confidence, lengths, block.pairs, dict(counts))
    return counts


def _blocks(model: TranslationModel, pairs: Iterator[Pair]) -> Iterator[_Block]:
    """Encoded sentences in blocks of bounded size; over-long ones are left out and counted."""
    limit = model.codec.max_length
    block = _Block([], [], [], 0, 0)
    tokens = 0
    while gulp := list(islice(pairs, _GULP)):
        sources = model.codec.encode_sources([pair.source for pair in gulp])
        targets = model.codec.encode_targets([pair.target for pair in gulp])
        kept = [i for i in range(len(gulp)) if max(len(sources[i]), len(targets[i])) <= limit]
        block = _Block(
            block.pairs + [gulp[i] for i in kept],
            block.sources + [sources[i] for i in kept],
            block.targets + [targets[i] for i in kept],
            block.consumed + len(gulp),
            block.too_long + len(gulp) - len(kept),
        )
        tokens += sum(len(targets[i]) for i in kept)
        if tokens >= BLOCK_TOKENS:
            yield block
            block, tokens = _Block([], [], [], 0, 0), 0
    if block.consumed:
        yield block


def _encode(
    model: TranslationModel, block: _Block, meter: Meter
) -> tuple[NDArray[np.float16], NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
    """Keys, values, log p and lengths of a block, in the corpus's order whatever order the batches have."""
    lengths = np.array([len(target) for target in block.targets], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    keys = np.empty((total, model.dim), np.float16)
    values = np.empty(total, np.int32)
    confidence = np.empty(total, np.float32)
    for states in model.batches(block.sources, block.targets):
        rows = ranges(starts[states.sentences], states.lengths)
        keys[rows] = states.keys.half().cpu().numpy()
        values[rows] = states.tokens.cpu().numpy()
        confidence[rows] = model.log_p(states).cpu().numpy()
        meter.advance(len(states.sentences), units=len(rows))
    return keys, values, confidence, lengths
