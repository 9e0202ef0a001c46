"""Build a store from a corpus: every target token becomes an entry with a key and a value."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import ParamSpec

import numpy as np
from numpy.typing import NDArray

from knnmt.binding import load_model, load_recorded, record_of
from knnmt.corpus import Corpus, Pair
from knnmt.datastore import Entries, Plan, Segment, StagedSegment, Store, StoredSentences, StoreWriter
from knnmt.datastore.files import check_name
from knnmt.datastore.segment import check_sound
from knnmt.errors import ModelError
from knnmt.model import Engine, Purpose, TranslationModel, choose_engine
from knnmt.progress import Meter, progress
from knnmt.ranges import ranges
from knnmt.search import build_index, check_kind, kept_kind, needs_index
from knnmt.workflow.pairing import check_pairing
from knnmt.workflow.source_vectors import lacks_source_vectors, new_source_vectors, with_source_vectors

Options = ParamSpec("Options")

BLOCK_TOKENS = 65_536  # how much a killed build may lose, and how much is held in memory
NEW_STORE_PRECISION = "int8"  # if onnx runs the model; translation then uses int8 too
_GULP = 512  # pairs tokenised at once


@dataclass(frozen=True)
class BuildReport:
    """The result of a build.

    Attributes:
        store: the store after the build
        entries, sentences: how many entries and sentence pairs were added
        resumed: how many of these entries came from an interrupted build
        too_long: sentences left out because they are too long for the model
        left_out: how many lines or messages were left out, by reason: empty, header, fuzzy, obsolete, untranslated
        known: sentence pairs that were in the store already; left out, or with `keep_duplicates` added again
    """

    store: Store
    entries: int = 0
    sentences: int = 0
    resumed: int = 0
    too_long: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    known: int = 0


@dataclass(frozen=True)
class _Block:
    """Encoded whole sentences that are passed through the model and written to disk together."""

    pairs: list[Pair]
    sources: list[list[int]]
    targets: list[list[int]]
    consumed: int
    too_long: int
    known: int


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
    keep_duplicates: bool = False,
    drop_unfinished: bool = False,
    force: bool = False,
) -> BuildReport:
    """Build a store from a corpus, or add to one, and report what was done; without a corpus, rebuild the index.

    A build that is killed does not change the store; the same call continues after its last finished block.

    Args:
        store: the store's directory
        corpus: files; plain text in pairs, source first; a single file needs no list
        model: directory, hub id or the bundled `de-en-small`; not needed for an existing store
        source_lang, target_lang: for multilingual models, as they spell them
        source_prefix: put before every source, for T5
        key_layer: `output` (default) or `ffn_input`
        origin: a name for the origin of the pairs, instead of the file's name
        limit: use only the first `limit` lines
        index: `auto`, `flat` (exact), `ivf` or `ivfpq` (of the paper's line of work)
        engine: what runs the model: `auto`, `onnx` (fast on a CPU) or `torch`
        precision: `float32` or `int8`; `auto` is the store's own; for a new store, int8 if onnx runs the model
        keep_duplicates: add sentence pairs again that are in the store already (the same normalised texts)
        drop_unfinished: first remove what interrupted builds have left; without a corpus, do nothing else
        force: do not check that the corpus is in the model's languages and that its two sides belong together

    Example:
        knnmt.build("memory", ["train.de", "train.en"], model="Helsinki-NLP/opus-mt-de-en")
    """
    check_kind(index)  # report a wrong kind before anything runs
    path = Path(store)
    check_name(path)
    exists = (path / "manifest.json").exists()
    if exists and not corpus:
        return BuildReport(_without_unfinished(path) if drop_unfinished else _remade(path, index, model, device))
    if not isinstance(model, TranslationModel):
        asked = {"source_lang": source_lang, "target_lang": target_lang}
        asked |= {"source_prefix": source_prefix, "key_layer": key_layer}
        model = _model_for(path, model, device, {name: v for name, v in asked.items() if v is not None})
    pairs = Corpus(corpus, languages=model.codec.languages, origin=origin, limit=limit, force=force)
    summary = pairs.scan()  # check all of it first, because the model may take hours
    made_with = Store.open(path).model.precision if exists else NEW_STORE_PRECISION
    running = choose_engine(model, engine, precision, Purpose.TARGETS, made_with)
    record = record_of(running)
    with StoreWriter(path, record) as writer:
        if drop_unfinished:
            writer.drop_staged()
        key = json.dumps([summary.digest, record.to_json(), origin, keep_duplicates], sort_keys=True)
        staged = writer.stage(hashlib.blake2b(key.encode(), digest_size=16).hexdigest())
        known = _KnownPairs(writer.store, keep_duplicates)
        if not force:
            check_pairing(running, {name: known.new(sample) for name, sample in summary.samples.items()})
        if not staged.committed and known.among(staged.pair_hashes()).any():
            staged.restart()  # another build has added some of them in the meantime
        resumed, counts = staged.rows, staged.state
        if not staged.committed:
            with progress("Building", total=summary.pairs, unit="tokens") as meter:
                counts = _fill(staged, running, pairs, known, meter)
        plan = writer.plan(staged)
        sources = new_source_vectors(writer, model, plan.segments)
        return BuildReport(
            entries=staged.rows,
            sentences=staged.sentences,
            store=writer.commit(plan, index=_index(writer, plan, index), sources=sources),
            resumed=resumed,
            too_long=counts["too_long"],
            left_out=summary.left_out,
            known=counts["known"],
        )


def _index(writer: StoreWriter, plan: Plan, kind: str) -> Path | None:
    """A new index over the planned segments, if they need one."""
    before = writer.store.index_config if writer.store else None
    covered = writer.store.covered_segments() if writer.store else frozenset()
    lost = before is not None and not covered
    if not lost and not needs_index(Entries(plan.segments), covered, kind):
        return None
    return _built_index(writer, plan.segments, kept_kind(before, kind), sound=() if plan.new is None else (plan.new,))


def _built_index(writer: StoreWriter, segments: Sequence[Segment], kind: str, sound: Sequence[Segment] = ()) -> Path:
    """A new index. Checks the segments first, except those in `sound`, which were just written."""
    check_sound(segment for segment in segments if segment not in sound)
    directory = writer.new_directory("index")
    build_index(Entries(segments), directory, kind)
    return directory


def _store_of(run: Callable[Options, BuildReport]) -> Callable[Options, Store]:
    def build(*arguments: Options.args, **options: Options.kwargs) -> Store:
        return run(*arguments, **options).store

    # so that help(knnmt.build) and editors show the arguments, which are documented once
    build.__doc__ = run.__doc__
    build.__signature__ = signature(run).replace(return_annotation=Store)  # type: ignore[attr-defined]
    return build


build = _store_of(build_with_report)


def _model_for(path: Path, name: str | None, device: str, asked: dict[str, str]) -> TranslationModel:
    """The requested model; an existing store provides what is not given."""
    if not (path / "manifest.json").exists():
        if name is None:
            raise ModelError(f"{path} is a new store; say which model it is for with --model.")
        return TranslationModel.load(name, device=device, **asked)
    return load_recorded(Store.open(path).model, device, name, **asked)


def _remade(path: Path, kind: str, model: str | TranslationModel | None, device: str) -> Store:
    """The store with a new index: of another kind, or instead of a missing or damaged one; and all source vectors."""
    with StoreWriter(path, Store.open(path).model) as writer:
        store = writer.opened
        store = writer.commit(index=_built_index(writer, store.segments, kept_kind(store.index_config, kind)))
    if not lacks_source_vectors(store):
        return store
    if not isinstance(model, TranslationModel):
        model = load_model(store, device, model)
    return with_source_vectors(store, model)


def _without_unfinished(path: Path) -> Store:
    with StoreWriter(path, Store.open(path).model) as writer:
        writer.drop_staged()
        return writer.opened


class _KnownPairs:
    """The sentence pairs of a store, to find duplicates; with `keep_duplicates` they are added again."""

    def __init__(self, store: Store | None, keep_duplicates: bool) -> None:
        self.keep = keep_duplicates
        self.hashes = np.empty(0, np.uint64)
        if store is not None:
            self.hashes = np.sort(StoredSentences(store).hashes("pair"))

    def new(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The pairs that are not in the store."""
        return [pair for pair, stored in zip(pairs, self.has(_hashes(pairs)), strict=True) if not stored]

    def among(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the hashes [n] belong to stored pairs that must not be added again."""
        return self.has(hashes) & (not self.keep)

    def has(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the hashes [n] belong to stored pairs."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.bool_)
        nearest = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.asarray(self.hashes[nearest] == hashes)


def _hashes(pairs: Sequence[Pair]) -> NDArray[np.uint64]:
    return np.array([pair.hashes.pair for pair in pairs], dtype=np.uint64)


def _fill(staged: StagedSegment, engine: Engine, corpus: Corpus, known: _KnownPairs, meter: Meter) -> dict[str, int]:
    """Pass the rest of the corpus through the model, block by block. Returns counts of pairs."""
    counts = {"consumed": 0, "too_long": 0, "known": 0} | staged.state
    meter.skip(counts["consumed"])
    for block in _blocks(engine.model, islice(corpus, counts["consumed"], None), known):
        counts["consumed"] += block.consumed
        counts["too_long"] += block.too_long
        counts["known"] += block.known
        meter.advance(block.consumed - len(block.pairs))
        if block.pairs:
            staged.append(*_encode(engine, block, meter), block.pairs, counts | {"corpus": corpus.names})
    return counts


def _blocks(model: TranslationModel, pairs: Iterator[Pair], known: _KnownPairs) -> Iterator[_Block]:
    """Encoded sentences in blocks of bounded size; too long sentences and duplicates are left out and counted."""
    limit = model.codec.max_length
    block = _Block([], [], [], 0, 0, 0)
    tokens = 0
    while gulp := list(islice(pairs, _GULP)):
        hashes = _hashes(gulp)
        new = [pair for pair, stored in zip(gulp, known.among(hashes), strict=True) if not stored]
        sources = model.codec.encode_sources([pair.source for pair in new])
        targets = model.codec.encode_targets([pair.target for pair in new])
        kept = [i for i in range(len(new)) if max(len(sources[i]), len(targets[i])) <= limit]
        block = _Block(
            block.pairs + [new[i] for i in kept],
            block.sources + [sources[i] for i in kept],
            block.targets + [targets[i] for i in kept],
            block.consumed + len(gulp),
            block.too_long + len(new) - len(kept),
            block.known + int(known.has(hashes).sum()),
        )
        tokens += sum(len(targets[i]) for i in kept)
        if tokens >= BLOCK_TOKENS:
            yield block
            block, tokens = _Block([], [], [], 0, 0, 0), 0
    if block.consumed:
        yield block


def _encode(
    engine: Engine, block: _Block, meter: Meter
) -> tuple[NDArray[np.float16], NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
    """Keys, values, log p and lengths of a block, in the order of the corpus, not of the batches."""
    lengths = np.array([len(target) for target in block.targets], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    keys = np.empty((total, engine.model.dim), np.float16)
    values = np.empty(total, np.int32)
    confidence = np.empty(total, np.float32)
    for states in engine.batches(block.sources, block.targets):
        rows = ranges(starts[states.sentences], states.lengths)
        keys[rows] = states.keys.half().cpu().numpy()
        values[rows] = states.tokens.cpu().numpy()
        confidence[rows] = engine.log_p(states).cpu().numpy()
        meter.advance(len(states.sentences), units=len(rows))
    return keys, values, confidence, lengths
