"""All strategies against an independent search, and against all sequences there are."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from families import FAMILIES
from naive import Dense, beam_search
from sentences import SENTENCES
from tolerances import LOG_P
from worlds import load, make_store

from knnmt.decoding import Settings, Strategy, choose_strategy
from knnmt.memory import Memory
from knnmt.methods import Vanilla
from knnmt.model import TranslationModel
from knnmt.search import Searcher

SOURCES = [source for source, _ in SENTENCES[:4] + SENTENCES[-3:]]
CAP = 9
NAMES = ["generate", "torch", "onnx"]


def strategy_and_dense(name: str, model: TranslationModel, path: Path, knn: bool) -> tuple[Strategy, Dense]:
    if not knn:
        return choose_strategy(model, None, Settings(engine=name)), Dense(model)
    store = make_store(path / "store", model)
    dense = Dense(model, store, k=4, lam=0.5, temperature=10.0)
    return choose_strategy(model, Memory(Searcher(store), Vanilla(4, 0.5, 10.0)), Settings(engine=name)), dense


@pytest.fixture(scope="module")
def searched() -> dict[tuple[str, bool], list[list[tuple[list[int], float]]]]:
    """What the independent search finds, slowly; it knows nothing of engines and is run once for all of them."""
    return {}


@pytest.mark.filterwarnings("ignore:The model's generation config asks")  # BART's
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("knn", [False, True], ids=["base", "knn"])
@pytest.mark.parametrize("family", FAMILIES)
def test_beam_search_agrees_with_an_independent_one(
    family: str,
    knn: bool,
    name: str,
    tmp_path: Path,
    family_directory: Callable[[str], Path],
    searched: dict[tuple[str, bool], list[list[tuple[list[int], float]]]],
) -> None:
    model = load(family, family_directory(family))
    strategy, dense = strategy_and_dense(name, model, tmp_path, knn)
    sources = model.codec.encode_sources(SOURCES)
    found = strategy.decode(sources, Settings(beam=3, n_best=2, max_length=CAP))
    if (family, knn) not in searched:
        searched[family, knn] = [beam_search(dense, source, beam=3, length_penalty=0.6, cap=CAP) for source in sources]
        assert not knn or len(dense.neighbours) > 10, "neighbours vary"
    outputs = set()
    for hypotheses, expected in zip(found, searched[family, knn], strict=True):
        for hypothesis, (tokens, score) in zip(hypotheses, expected[:2], strict=True):
            assert hypothesis.score == pytest.approx(score, abs=LOG_P)
            assert hypothesis.tokens == tokens
            outputs.add(tuple(tokens))
    assert len(outputs) > len(SOURCES), "outputs vary"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", ["marian", "m2m100"])
def test_the_memory_changes_translations(
    family: str, name: str, tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    model = load(family, family_directory(family))
    strategy, _ = strategy_and_dense(name, model, tmp_path, knn=True)
    sources = model.codec.encode_sources(SOURCES)
    settings = Settings(beam=2, max_length=CAP)
    with_memory = strategy.decode(sources, settings)
    without = choose_strategy(model, None, Settings(engine=name)).decode(sources, settings)
    assert [each[0].tokens for each in with_memory] != [each[0].tokens for each in without]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length_penalty", [0.6, 1.0])
def test_a_beam_that_drops_nothing_finds_the_best_of_all_sequences(
    length_penalty: float, name: str, tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    model = load("marian", family_directory("marian"))
    allowed = [token for token in model.codec.encode_targets(["Restart the service."])[0] if token != model.codec.eos]
    allowed = sorted(set(allowed))[:4]
    keep = {*allowed, model.codec.eos}
    config = model.hf.generation_config
    config.bad_words_ids = [[token] for token in range(model.vocab_size) if token not in keep]
    strategy, dense = strategy_and_dense(name, model, tmp_path, knn=True)
    cap = 4
    for source in model.codec.encode_sources(SOURCES[:3]):
        scored = []
        for length in range(cap):
            for content in itertools.product(allowed, repeat=length):
                tokens = [*content, model.codec.eos]
                score = 0.0
                for position, token in enumerate(tokens):
                    free = position < cap - 1  # at the cap the end is forced and costs nothing
                    score += dense.log_p(source, tokens[:position])[token] if free else 0.0
                scored.append((score / len(tokens) ** length_penalty, tokens))
        best = max(scored)
        settings = Settings(beam=64, n_best=2, length_penalty=length_penalty, max_length=cap)
        found = strategy.decode([source], settings)[0][0]
        assert found.tokens == best[1]
        assert found.score == pytest.approx(best[0], abs=LOG_P)


class Tight(Settings):
    """Caps that most translations reach, each at its own length."""

    def cap(self, source_tokens: int) -> int:
        return source_tokens // 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", ["marian", "nllb", "t5"])
def test_a_translation_does_not_depend_on_its_batch(
    family: str, name: str, family_directory: Callable[[str], Path]
) -> None:
    model = load(family, family_directory(family))
    strategy = choose_strategy(model, None, Settings(engine=name))
    sources = model.codec.encode_sources([source for source, _ in SENTENCES[8:24]])
    settings = Tight(beam=3, n_best=2)
    together = strategy.decode(sources, settings)
    reached = 0
    for source, hypotheses in zip(sources, together, strict=True):
        alone = strategy.decode([source], settings)[0][0]
        assert hypotheses[0].tokens == alone.tokens
        assert hypotheses[0].score == pytest.approx(alone.score, abs=LOG_P)
        assert len(alone.tokens) <= settings.cap(len(source))
        reached += len(alone.tokens) == settings.cap(len(source))
    assert reached >= 3
