"""Features of the store's own sentences against loops: each position must not find itself or its likes."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from sentences import SENTENCES
from tolerances import DISTANCE, LOG_P, NLL, SINGLE
from torch import Tensor
from worlds import load

from knnmt.binding import record_of
from knnmt.combiner import Needs
from knnmt.corpus import Pair, normalise
from knnmt.datastore import Entries, Store, StoreWriter, writer
from knnmt.model import TorchEngine, TranslationModel
from knnmt.search import Searcher
from knnmt.training import Features, collect, collect_features, collect_stored

K, TOP = 8, 3
SOURCE, TARGET = SENTENCES[26]
PARTS = [
    [*SENTENCES[10:16], *[(SOURCE, TARGET)] * 30],  # with the nearest dozens left out there are still K
    [
        ("Es ist keine Verbindung zum Drucker da.", TARGET.upper()),  # one translation, other sources
        ("Drucker getrennt.", f"  {TARGET} "),
        (SENTENCES[11][0].upper(), "Coffee is what we drink."),  # one source, other translations
        (SENTENCES[11][0], "In the morning we drink coffee, in the evening tea."),
    ],
    SENTENCES[16:20],
]


@pytest.fixture(autouse=True)
def several_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TAIL_ENTRIES", 0)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def models(family_directory: Callable[[str], Path]) -> dict[str, TranslationModel]:
    directory = family_directory("marian")
    return {layer: load("marian", directory, key_layer=layer) for layer in ("output", "ffn_input")}


def make(path: Path, model: TranslationModel, parts: Sequence[Sequence[tuple[str, str]]] = PARTS) -> Store:
    """A store of one segment for each part."""
    engine = TorchEngine(model)
    for number, part in enumerate(parts):
        sources = model.codec.encode_sources([source for source, _ in part])
        targets = model.codec.encode_targets([target for _, target in part])
        states = engine.teacher_forced(sources, targets)
        pairs = [Pair(source, target, "test", n + 1) for n, (source, target) in enumerate(part)]
        with StoreWriter(path, record_of(engine)) as adding:
            staged = adding.stage(str(number))
            lengths = np.array([len(target) for target in targets])
            confidence = engine.log_p(states).numpy()
            staged.append(states.keys.numpy(), states.tokens.numpy(), confidence, lengths, pairs, {})
            adding.commit(adding.plan(staged))
    store = Store.open(path)
    assert len(store.segments) == len(parts)
    return store


class Loops:
    """Every stored pair in plain arrays, with the normalised texts of its sentence."""

    def __init__(self, store: Store) -> None:
        self.keys = np.concatenate([segment.keys for segment in store.segments]).astype(np.float64)
        self.values = np.concatenate([segment.values for segment in store.segments])
        self.confidence = np.concatenate([segment.confidence for segment in store.segments])
        self.sentence: list[int] = []
        self.texts: list[tuple[str, str]] = []
        for segment in store.segments:
            self.sentence += [len(self.texts) + int(number) for number in segment.sentence]
            self.texts += [
                (normalise(row["source"]), normalise(row["target"])) for row in segment.sentence_table.to_pylist()
            ]
        self.of = np.array(self.sentence)
        self.live = np.concatenate(
            [store.entries.mask.get(each.name, np.full(len(each), True)) for each in store.segments]
        )
        ids = [(segment.number << 32) + row for segment in store.segments for row in range(len(segment))]
        self.place = {pair: place for place, pair in enumerate(ids)}

    def whose(self, tokens: list[int], queries: np.ndarray) -> int:
        """The stored sentence of these tokens whose keys are nearest to the queries."""
        same = [n for n in range(len(self.texts)) if self.values[self.of == n].tolist() == tokens]
        return min(same, key=lambda n: float(((self.keys[self.of == n] - queries) ** 2).sum()))

    def allowed(self, own: int) -> np.ndarray:
        """The live pairs of sentences with another source and another target."""
        source, target = self.texts[own]
        fine = [theirs[0] != source and theirs[1] != target for theirs in self.texts]
        allowed: np.ndarray = np.array([fine[number] for number in self.sentence]) & self.live
        return allowed


def check_neighbours(features: Features, loops: Loops) -> list[int]:
    """Compares every row with sorting all that is allowed; gives the sentences in order."""
    assert features.queries is not None
    seen, found, start = features.observation, [], 0
    for length in features.lengths.tolist():
        rows = slice(start, start + length)
        start += length
        queries = features.queries[rows].double().numpy()
        found.append(loops.whose(features.tokens[rows].tolist(), queries))
        allowed = np.flatnonzero(loops.allowed(found[-1]))
        assert len(allowed) < len(loops.keys)
        for row, query in zip(range(rows.start, rows.stop), queries, strict=True):
            nearest = np.sort(((loops.keys[allowed] - query) ** 2).sum(1))[:K]
            np.testing.assert_allclose(seen.distances[row].numpy(), nearest, **DISTANCE)
            places = [
                loops.place[pair] for pair in features.observation.ids[row].tolist()
            ]  # of equally near ones any will do
            assert len(set(places)) == K
            assert set(places) <= set(allowed.tolist())
            assert seen.values[row].tolist() == loops.values[places].tolist()
            np.testing.assert_array_equal(seen.log_confidence[row], loops.confidence[places])
            distances = ((loops.keys[places] - query) ** 2).sum(1)
            np.testing.assert_allclose(seen.distances[row].numpy(), distances, **DISTANCE)
        assert torch.isfinite(seen.distances[rows]).all()
    assert start == len(features)
    return found


def forbid(monkeypatch: pytest.MonkeyPatch, model: TranslationModel) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("the model is run")

    monkeypatch.setattr(TorchEngine, "teacher_forced", fail)
    monkeypatch.setattr(model.hf, "forward", fail)


@pytest.mark.parametrize("rows", [4096, 40])  # all at once, and in pieces
def test_stored_keys_are_searched_without_their_likes(
    tmp_path: Path, models: dict[str, TranslationModel], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    model = models["output"]
    store = make(tmp_path / "store", model)
    forbid(monkeypatch, model)
    monkeypatch.setattr(collect, "_STORED_ROWS", rows)
    features = collect_stored(TorchEngine(model), Searcher(store), 10_000, Needs(K, TOP), keep_queries=True)
    loops = Loops(store)
    found = check_neighbours(features, loops)
    assert len(found) == store.sentence_count, "asked for more than there are: all of them"
    assert len(features) == store.entry_count
    copies = set(range(6, 36))
    assert set(found) | copies == set(range(store.sentence_count)), "each once, of the copies any"
    assert sum(number in copies for number in found) == len(copies)
    check_columns(features, model)


@pytest.mark.parametrize("layer", ["output", "ffn_input"])
def test_sentences_of_a_view(tmp_path: Path, models: dict[str, TranslationModel], layer: str) -> None:
    """Drawn are those with a live entry, with all their tokens; found are live entries."""
    store = make(tmp_path / "store", models[layer])
    first, second, third = store.segments
    mask = {
        first.name: (first.sentence % 4 > 0) & (first.position % 3 > 0),  # of some sentences parts, of others nothing
        second.name: np.zeros(len(second), np.bool_),
        third.name: third.sentence == 2,
    }
    with StoreWriter(store.path, store.model) as writing:
        view = writing.commit_view("some", Entries(store.segments, mask)).view("some")
    features = collect_stored(TorchEngine(models[layer]), Searcher(view), 10_000, Needs(K, TOP), keep_queries=True)
    loops = Loops(view)
    live = set(loops.of[loops.live].tolist())
    copies = live & set(range(6, 36))
    found = check_neighbours(features, loops)
    assert len(found) == view.sentence_count == len(live) < store.sentence_count
    assert {number for number in found if number not in range(6, 36)} == live - copies
    assert len(features) == np.isin(loops.of, list(live)).sum() > view.entry_count
    assert set(features.observation.ids.flatten().tolist()) <= set(view.entries.ids(np.arange(view.entry_count)))


@torch.inference_mode()
def check_columns(features: Features, model: TranslationModel) -> None:
    """What the model thinks is its output projection of the keys, and only that."""
    assert features.queries is not None
    for row in range(len(features)):
        log_p = TorchEngine(model).project(features.queries[row][None]).values[0].double().log_softmax(0)
        assert features.log_p[row].item() == pytest.approx(log_p[features.tokens[row]].item(), abs=LOG_P)
        assert features.log_p_sum[row].item() == pytest.approx(log_p.sum().item(), rel=SINGLE)
        np.testing.assert_allclose(features.observation.log_p_top[row], log_p.topk(TOP).values, atol=LOG_P)
        of_values = log_p[features.observation.values[row]]
        np.testing.assert_allclose(features.observation.log_p_values[row], of_values, atol=LOG_P)


def test_keys_that_the_output_does_not_know_take_the_texts_through_the_model(
    tmp_path: Path, models: dict[str, TranslationModel]
) -> None:
    """States before the last feed-forward cannot be projected; what is left out is the same."""
    model = models["ffn_input"]
    store = make(tmp_path / "store", model)
    features = collect_stored(TorchEngine(model), Searcher(store), 10_000, Needs(K, TOP), keep_queries=True)
    assert len(check_neighbours(features, Loops(store))) == store.sentence_count
    assert features.base_nll == pytest.approx(-np.concatenate([s.confidence for s in store.segments]).mean(), abs=NLL)


@pytest.mark.parametrize("layer", ["output", "ffn_input"])
def test_a_draw_depends_on_the_seed_alone(tmp_path: Path, models: dict[str, TranslationModel], layer: str) -> None:
    searcher = Searcher(make(tmp_path / "store", models[layer], [SENTENCES[10:20], SENTENCES[20:30]]))

    def draw(seed: int) -> list[int]:
        features = collect_stored(TorchEngine(models[layer]), searcher, 6, Needs(2), seed=seed)
        assert len(features.lengths) == 6
        assert features.queries is None, "kept only where they are read back"
        return features.tokens.tolist()

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_nothing_else_in_the_store(tmp_path: Path, models: dict[str, TranslationModel]) -> None:
    """All sentences are likes of each other: no neighbour is left, and the model stands alone."""
    model = models["output"]
    store = make(tmp_path / "store", model, [[(SOURCE, TARGET)], [(SOURCE.upper(), "Something else.")]])
    features = collect_stored(TorchEngine(model), Searcher(store), 10, Needs(4))
    assert not features.observation.exists.any()
    assert features.gold_in_k(4) == 0


def test_columns_of_dev_pairs(tmp_path: Path, models: dict[str, TranslationModel]) -> None:
    model = models["output"]
    store = make(tmp_path / "store", model)
    pairs = [Pair(source, target, "dev", n) for n, (source, target) in enumerate(SENTENCES[:8])]
    long = Pair("Haus " * 500, "house", "dev", 9)
    features = collect_features(
        TorchEngine(model), Searcher(store), [*pairs[:3], long, *pairs[3:]], Needs(K, TOP), keep_queries=True
    )
    targets = model.codec.encode_targets([pair.target for pair in pairs])
    starts = np.cumsum(features.lengths) - features.lengths
    rows = [
        features.tokens[start : start + length].tolist() for start, length in zip(starts, features.lengths, strict=True)
    ]
    assert sorted(rows) == sorted(targets), "whole sentences, whatever their order"
    check_columns(features, model)
    values = torch.from_numpy(store.entries.values(features.observation.ids.numpy())).long()
    assert torch.equal(features.observation.values, values), "the ids are the neighbours'"


def test_what_is_left_out_follows_the_pairs(tmp_path: Path, models: dict[str, TranslationModel]) -> None:
    """Batches are of like length and over-long pairs fall out: `leave` still gets indices of what was given."""
    model = models["output"]
    store = make(tmp_path / "store", model)
    long = Pair("Haus " * 500, "house", "dev", 1)
    pairs = [long, *(Pair(source, target, "dev", n) for n, (source, target) in enumerate(SENTENCES[:6]))]
    asked: list[tuple[int, ...]] = []

    def leave(places: np.ndarray) -> Callable[..., np.ndarray]:
        asked.append(tuple(places.tolist()))
        return lambda ids, rows: np.zeros(ids.shape, dtype=bool)

    collect_features(TorchEngine(model), Searcher(store), pairs, Needs(K), leave=leave)
    lengths = {n: len(model.codec.encode_targets([pair.target])[0]) for n, pair in enumerate(pairs) if pair is not long}
    places = [place for each in asked for place in each]
    assert {place: places.count(place) for place in places} == lengths


def test_nothing_has_the_size_of_the_vocabulary(tmp_path: Path, models: dict[str, TranslationModel]) -> None:
    model = models["output"]
    searcher = Searcher(make(tmp_path / "store", model, [SENTENCES[10:20]]))
    features = collect_stored(TorchEngine(model), searcher, 5, Needs(K, TOP), keep_queries=True)
    assert model.vocab_size > max(K, TOP, model.dim)
    parts = {field.name: getattr(features, field.name) for field in fields(Features)}
    parts |= {field.name: getattr(features.observation, field.name) for field in fields(features.observation)}
    tensors = {name: part for name, part in parts.items() if isinstance(part, Tensor)}
    assert len(tensors) == 10
    widths = {"queries": model.dim, "log_p_top": TOP, "tokens": 1, "log_p": 1, "log_p_sum": 1}
    assert {name: tensor.numel() // len(features) for name, tensor in tensors.items()} == {
        name: widths.get(name, K) for name in tensors
    }
