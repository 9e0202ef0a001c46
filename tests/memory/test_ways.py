"""The context reaches a combiner alike, whichever way a model is run: all ways against loops over one sentence."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
import torch
from sentences import SENTENCES
from transformers import AutoModelForSeq2SeqLM
from worlds import in_threads, load, make_store

from knnmt.combiner import CONTEXT, Combination, Combiner, Needs, Observation
from knnmt.corpus import Pair
from knnmt.datastore import Store, StoreWriter
from knnmt.decoding import Settings, Translator, attach, explain
from knnmt.memory import Memory
from knnmt.methods import Vanilla, VanillaMethod, registry
from knnmt.model import TorchEngine, TranslationModel
from knnmt.search import Searcher
from knnmt.training import collect_features, collect_stored

K, BEAM, LENGTH = 6, 3, 14
SOURCE = SENTENCES[12][0]

Ids = tuple[int, ...]
Context = tuple[tuple[int, bool, float, bool], ...]  # of each neighbour
Seen = set[tuple[Ids, Context]]
EVERYTHING = frozenset(CONTEXT)
COLUMNS = ("matching_past", "same_beginning", "source_similarity", "continued")


class Nosy(Combiner):
    """Vanilla that notes down what it is shown of the context."""

    method = "nosy"
    seen: ClassVar[Seen] = set()

    def __init__(self) -> None:
        super().__init__(Needs(K, context=EVERYTHING))
        self.vanilla = Vanilla(K, 0.3, 10.0)

    def combine(self, observation: Observation) -> Combination:
        Nosy.seen |= shown(observation)
        return self.vanilla.combine(observation)

    def options(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        return cls()


def shown(observation: Observation) -> Seen:
    """The context of every row; cosines rounded, because their sums are in another order here and there."""
    rows = [observation.ids.tolist(), *(getattr(observation, name).tolist() for name in COLUMNS)]
    return {
        (tuple(ids), tuple((m, b, round(s, 3), c) for m, b, s, c in zip(*context, strict=True)))
        for ids, *context in zip(*rows, strict=True)
    }


@contextmanager
def noting() -> Iterator[Seen]:
    Nosy.seen = set()
    yield Nosy.seen


@pytest.fixture(params=["marian", "nllb", "fsmt"])
def model(request: pytest.FixtureRequest, family_directory: Callable[[str], Path]) -> TranslationModel:
    return load(request.param, family_directory(request.param))


@pytest.fixture
def store(tmp_path: Path, model: TranslationModel, monkeypatch: pytest.MonkeyPatch) -> Store:
    method = type("NosyMethod", (VanillaMethod,), {"name": "nosy", "combiner": Nosy})
    monkeypatch.setitem(registry._METHODS, "nosy", method)
    store = make_store(tmp_path / "store", model)
    with StoreWriter(store.path, store.model) as writer:
        directory = writer.new_directory("combiners", "nosy")
        Nosy().save(directory)
        return writer.commit(combiner=("nosy", directory))


def translator(store: Store, model: TranslationModel, engine: str, beam: int = 1) -> Translator:
    settings = Settings(beam=beam, max_length=LENGTH, engine=engine, precision="auto", split=False)
    return Translator.open(store, "nosy", model=model, settings=settings)


@torch.inference_mode()
def in_loops(store: Store, model: TranslationModel, target: list[int]) -> Seen:
    """What is to be seen at each position of a translation of the source."""
    (source,) = model.codec.encode_sources([SOURCE])
    keys = TorchEngine(model).teacher_forced([source], [target]).keys.numpy()
    return in_loops_of(store, similarities(model, source), target, Searcher(store).search(keys, K).ids.tolist())


def in_loops_of(store: Store, similar: list[float], target: list[int], neighbours: list[list[int]]) -> Seen:
    segment, found = store.segments[0], set()
    before: list[int] = []
    for position, ids in enumerate(neighbours):
        context: list[tuple[int, bool, float, bool]] = []
        for entry in ids:
            row, count = entry & 0xFFFFFFFF, 0
            if entry < 0:
                context.append((0, False, 0.0, False))
                continue
            while (
                count < min(16, position, int(segment.position[row]))
                and segment.values[row - 1 - count] == target[position - 1 - count]
            ):
                count += 1
            start = count < 16 and count == position == int(segment.position[row])
            continues = segment.position[row] > 0 and entry - 1 in before
            context.append((count, start, round(similar[int(segment.sentence[row])], 3), bool(continues)))
        found.add((tuple(ids), tuple(context)))
        before = ids
    return found


def similarities(model: TranslationModel, source: list[int]) -> list[float]:
    """The tf-idf cosine of a source with each stored one."""
    stored = [Counter(each) for each in model.codec.encode_sources([each for each, _ in SENTENCES[10:]])]
    occurring = Counter(piece for each in stored for piece in each)
    idf = {piece: math.log((1 + len(stored)) / count) for piece, count in occurring.items()}

    def weighted(pieces: Counter[int]) -> dict[int, float]:
        weights = {piece: count * idf.get(piece, math.log(1 + len(stored))) for piece, count in pieces.items()}
        norm = math.sqrt(sum(weight**2 for weight in weights.values()))
        return {piece: weight / norm for piece, weight in weights.items()}

    mine = weighted(Counter(source))
    return [sum(mine.get(piece, 0) * weight for piece, weight in weighted(each).items()) for each in stored]


def generate(model: TranslationModel, **options: Any) -> list[int]:
    """The user's own call; gives what was written behind the prefix."""
    prefix = model.codec.prefix
    forced = {"forced_bos_token_id": prefix[1]} if len(prefix) > 1 else {}
    rows = model.hf.generate(
        input_ids=torch.tensor(model.codec.encode_sources([SOURCE])),
        **{"decoder_start_token_id": prefix[0], "max_length": LENGTH + len(prefix), **forced, **options},
    )
    return list(rows[0, len(prefix) :].tolist())


def test_greedy_search_of_every_strategy_and_its_explanation(store: Store, model: TranslationModel) -> None:
    for engine in ("torch", "onnx", "generate"):
        mine = translator(store, model, engine)
        with noting() as seen:
            (translation,) = mine.translations([SOURCE])
        expected = in_loops(store, model, translation.sentences[0].target)
        forced_end = expected - seen  # at the cap, no state is asked what follows; the last may be missing
        assert seen - expected == set()
        assert len(forced_end) <= 1
        assert max(count for _, context in expected for count, *_ in context) > 1, "something matches"
        assert any(continues for _, context in expected for *_, continues in context)
        with noting() as explained:
            explain(mine, translation)
        assert explained == expected


def test_beam_search_sees_what_its_hypotheses_have_written(store: Store, model: TranslationModel) -> None:
    """Rows change places and sentences leave: ours sees what `generate` sees, and both what is in the best."""
    found = {}
    for engine in ("torch", "onnx", "generate"):
        with noting() as seen:
            (translation,) = translator(store, model, engine, BEAM).translations([SOURCE])
        expected = in_loops(store, model, translation.sentences[0].target)
        assert len(expected - seen) <= 1
        found[engine] = seen
    assert found["torch"] == found["onnx"]
    assert found["torch"] <= found["generate"], "which goes on with rows that we have left"


@pytest.mark.parametrize("strategy", ["cached", "uncached", "sampling", "beam", "assisted", "prompt"])
def test_in_somebodys_own_generate(strategy: str, store: Store, model: TranslationModel) -> None:
    options: dict[str, Any] = {"num_beams": 1}
    if strategy == "uncached":
        options["use_cache"] = False
    if strategy == "sampling":
        torch.manual_seed(3)
        options |= {"do_sample": True, "top_k": 0}
    if strategy == "beam":
        options |= {"num_beams": BEAM, "length_penalty": 1.0}
    if strategy == "assisted":
        options["assistant_model"] = AutoModelForSeq2SeqLM.from_pretrained(model.hf.name_or_path, dtype=torch.float32)
    if strategy == "prompt":
        first = generate(model, num_beams=1)[:4]
        options |= {"decoder_input_ids": torch.tensor([[*model.codec.prefix, *first]]), "forced_bos_token_id": None}
    before = model.hf.prepare_inputs_for_generation
    with attach(model.hf, model.codec.tokenizer, store, "nosy"), noting() as seen:
        written = generate(model, **options)
    assert model.hf.prepare_inputs_for_generation == before, "the model is as it was"
    if model.codec.eos in written:
        written = written[: written.index(model.codec.eos) + 1]
    expected = in_loops(store, model, written)
    assert len(expected - seen) <= 1, "a forced end is not asked for"
    if strategy in ("cached", "uncached", "sampling", "prompt"):
        assert len(seen - expected) <= 1, "a state behind a forced end"


def test_rows_of_several_sources_in_one_beam_search(store: Store, model: TranslationModel) -> None:
    """`generate` copies and reorders rows: each is compared with its own source and its own last step."""
    sources = [SENTENCES[number][0] for number in (12, 13, 12, 17)]
    padded, mask = model.pad_sources(model.codec.encode_sources(sources))
    prefix = model.codec.prefix
    forced = {"forced_bos_token_id": prefix[1]} if len(prefix) > 1 else {}
    options = {"num_beams": BEAM, "num_return_sequences": BEAM, "max_length": LENGTH, **forced}
    with attach(model.hf, model.codec.tokenizer, store, "nosy"):
        with noting() as together:
            model.hf.generate(input_ids=padded, attention_mask=mask, decoder_start_token_id=prefix[0], **options)
        alone: Seen = set()
        for source in set(sources):
            with noting() as seen:
                ids = torch.tensor(model.codec.encode_sources([source]))
                model.hf.generate(input_ids=ids, decoder_start_token_id=prefix[0], **options)
            alone |= seen
    assert alone <= together, "which goes on until the last sentence has ended"
    best = {ids: context for ids, context in alone}
    assert sum(context == best.get(ids) for ids, context in together) >= len(alone) * 0.8


def test_in_a_forward_pass_over_several_positions(store: Store, model: TranslationModel) -> None:
    (target,) = model.codec.encode_targets([SENTENCES[12][1]])
    decoder_input = torch.tensor([[*model.codec.prefix, *target[:-1]]])
    sources = torch.tensor(model.codec.encode_sources([SOURCE]))
    expected = in_loops(store, model, target)
    for use_cache in (True, False):
        with attach(model.hf, model.codec.tokenizer, store, "nosy"), noting() as seen, torch.no_grad():
            model.hf(input_ids=sources, decoder_input_ids=decoder_input, use_cache=use_cache)
        assert seen == expected


def test_a_cache_of_ones_own_hides_the_past(store: Store, model: TranslationModel) -> None:
    """Only the tokens of the call are known then: nothing is claimed that is not so."""
    (target,) = model.codec.encode_targets([SENTENCES[12][1]])
    read = [*model.codec.prefix, *target[:-1]]
    sources, cut = torch.tensor(model.codec.encode_sources([SOURCE])), len(model.codec.prefix) + 3
    expected = dict(in_loops(store, model, target))
    with attach(model.hf, model.codec.tokenizer, store, "nosy"), noting() as seen, torch.no_grad():
        first = model.hf(input_ids=sources, decoder_input_ids=torch.tensor([read[:cut]]), use_cache=True)
        model.hf(
            input_ids=sources,
            decoder_input_ids=torch.tensor([read[cut:]]),
            past_key_values=first.past_key_values,
            use_cache=True,
        )
    assert len(seen) == len(expected)
    lower = 0
    for ids, context in seen:
        for (count, start, similarity, continues), right in zip(context, expected[ids], strict=True):
            assert count <= right[0]
            assert start <= right[1]
            assert similarity == right[2], "the encoder read the source before our eyes"
            assert continues <= right[3]
        lower += context != expected[ids]
    assert lower


def test_features_of_pairs(store: Store, model: TranslationModel) -> None:
    engine, searcher = TorchEngine(model), Searcher(store)
    _, target = SENTENCES[12]
    (tokens,) = model.codec.encode_targets([target])
    pair = Pair(SOURCE, target, "dev", 1)
    features = collect_features(engine, searcher, [pair], Needs(K, context=EVERYTHING))
    with noting() as seen:
        features.judge(Nosy())
    assert seen == in_loops(store, model, tokens)
    assert collect_features(engine, searcher, [pair], Needs(K)).observation.matching_past is None


def test_stored_sentences_against_loops(store: Store, model: TranslationModel) -> None:
    needs = Needs(K, context=EVERYTHING)
    features = collect_stored(TorchEngine(model), Searcher(store), store.sentence_count, needs)
    sources = model.codec.encode_sources([source for source, _ in SENTENCES[10:]])
    targets = model.codec.encode_targets([target for _, target in SENTENCES[10:]])
    source_of = dict(zip(map(tuple, targets), sources, strict=True))
    expected, start = set(), 0
    for length in features.lengths.tolist():
        rows = slice(start, start + length)
        target = features.tokens[rows].tolist()
        similar = similarities(model, source_of[tuple(target)])
        expected |= in_loops_of(store, similar, target, features.observation.ids[rows].tolist())
        start += length
    assert shown(features.observation) == expected
    assert max(count for _, context in expected for count, *_ in context) > 1


def test_threads_know_their_own_past(store: Store, model: TranslationModel) -> None:
    lines = [source for source, _ in SENTENCES[12:16]]

    def written(line: str) -> list[int]:
        return list(
            model.hf.generate(
                input_ids=torch.tensor(model.codec.encode_sources([line])), num_beams=2, max_length=LENGTH
            )[0].tolist()
        )

    with attach(model.hf, model.codec.tokenizer, store, "nosy"):
        with noting() as alone:
            for line in lines:
                written(line)
        with noting() as together:
            in_threads(lambda number: written(lines[number]))
    assert together == alone


def test_a_translator_inside_an_attached_block(store: Store, model: TranslationModel) -> None:
    """Both watch the same model; whoever leaves first leaves the other's watch alone."""
    before = model.hf.prepare_inputs_for_generation
    with attach(model.hf, model.codec.tokenizer, store, "nosy"):
        with noting() as first:
            generate(model, num_beams=1)
        list(translator(store, model, "generate").translate([SOURCE]))
        with noting() as second:
            generate(model, num_beams=1)
    assert first == second
    assert model.hf.prepare_inputs_for_generation == before


def test_who_needs_no_context_pays_nothing(store: Store, model: TranslationModel) -> None:
    memory = Memory(Searcher(store), Vanilla(K, 0.3, 10.0))
    engine = TorchEngine(model)
    decoder, recall = engine.start([[5, 6, model.codec.eos]]), memory.begin([[5, 6, model.codec.eos]])
    with torch.inference_mode():
        states = decoder.step(torch.tensor([list(model.codec.prefix)]))
        mixture = recall.ask(states.keys, decoder.project(states))
    assert mixture.observation.matching_past is None
    nosy = Memory(Searcher(store), Nosy())
    with pytest.raises(ValueError, match="told the tokens so far"):
        nosy.begin().ask(states.keys, decoder.project(states))


def test_rows_follow_their_sources(store: Store, model: TranslationModel) -> None:
    recall = Memory(Searcher(store), Vanilla(K, 0.3, 10.0)).begin([[5], [6], [7]])
    recall.select(torch.tensor([0, 0, 2, 2]))
    recall.select(torch.tensor([3, 1]))
    assert recall.source_of_row is not None
    assert recall.source_of_row.tolist() == [2, 0]
    states = torch.zeros(3, model.dim)
    with pytest.raises(ValueError, match="3 rows are asked for where 2 were selected"):
        recall.ask(states, TorchEngine(model).project(states))
