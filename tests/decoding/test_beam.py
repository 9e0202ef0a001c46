"""Our beam search against `generate`, its candidates against dense distributions, and the rules of models."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from families import FAMILIES
from sentences import SENTENCES
from tolerances import LOG_P, SHARE
from worlds import load, make_store

from knnmt.combiner import Combiner
from knnmt.decoding import BeamSearch, GenerateSearch, Settings, choose_strategy
from knnmt.decoding.candidates import propose
from knnmt.decoding.rules import Rules
from knnmt.errors import MethodError, ModelError
from knnmt.memory import Memory
from knnmt.methods import Robust, Vanilla
from knnmt.model import Logits, TorchEngine, TranslationModel
from knnmt.search import Exclude, Neighbours, Searcher

SOURCES = [source for source, _ in SENTENCES[:12]]
COMBINERS: dict[str, Combiner | None] = {
    "base": None,
    "vanilla": Vanilla(4, 0.5, 10.0),
    "robust": Robust(4, 10.0, top=6),
}


def known(model: TranslationModel) -> Rules:
    model.hf.generation_config.no_repeat_ngram_size = None  # BART's, which only `generate` knows
    rules = Rules.of(model)
    assert isinstance(rules, Rules)
    return rules


def memory_of(model: TranslationModel, path: Path, combiner: Combiner | None) -> Memory | None:
    return None if combiner is None else Memory(Searcher(make_store(path / "store", model)), combiner)


@pytest.mark.parametrize("method", COMBINERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_translations_of_generate(
    family: str, method: str, tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    model = load(family, family_directory(family))
    rules, memory = known(model), memory_of(model, tmp_path, COMBINERS[method])
    sources = model.codec.encode_sources(SOURCES)
    for settings in (
        Settings(beam=4, n_best=3),
        Settings(beam=1),
        Settings(beam=2, n_best=2, max_length=6, length_penalty=1.0),
        Settings(beam=3, n_best=3, length_penalty=0.0),
    ):
        expected = GenerateSearch(model, memory).decode(sources, settings)
        found = BeamSearch(TorchEngine(model), rules, memory).decode(sources, settings)
        if settings.n_best == 1:
            assert [each[0].tokens for each in found] == [each[0].tokens for each in expected]
            continue
        ours, theirs = ([h for each in found for h in each] for found in (found, expected))
        scores = [h.score for h in theirs]
        assert [h.score for h in ours] == pytest.approx(scores, abs=LOG_P)
        differing = [rank for rank, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a.tokens != b.tokens]
        # equally good hypotheses may change places
        for rank in differing:
            assert {rank - 1, rank + 1} & set(differing)
            near = [score for score in (scores[rank - 1], *scores[rank + 1 : rank + 2]) if score is not None]
            assert scores[rank] in [pytest.approx(score, abs=LOG_P) for score in near]
    assert len({tuple(each[0].tokens) for each in found}) > 6, "outputs vary"


@pytest.mark.parametrize(
    "change",
    ["min_length", "min_new_tokens", "renormalize_logits", "suppress_tokens", "eos_token_id", "bad_words_ids"],
)
@pytest.mark.parametrize("method", ["base", "vanilla"])
@pytest.mark.parametrize("family", ["marian", "nllb"])
def test_what_a_generation_config_asks_for(
    family: str, method: str, change: str, tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    model = load(family, family_directory(family))
    memory = memory_of(model, tmp_path, COMBINERS[method])
    sources, settings = model.codec.encode_sources(SOURCES), Settings(beam=4, n_best=2)
    before = BeamSearch(TorchEngine(model), known(model), memory).decode(sources, settings)
    likely = [token for token in before[0][0].tokens[:3] if token != model.codec.eos]
    value = {
        "min_length": 14,
        "min_new_tokens": 14,
        "renormalize_logits": True,
        "suppress_tokens": likely,
        "eos_token_id": [model.codec.eos, *likely],
        "bad_words_ids": [[model.codec.eos], *([token] for token in likely)],  # the end of sentence is let through
    }[change]
    setattr(model.hf.generation_config, change, value)
    if change == "min_new_tokens":
        model.hf.generation_config.min_length = 17  # which these win over
    expected = GenerateSearch(model, memory).decode(sources, settings)
    found = BeamSearch(TorchEngine(model), known(model), memory).decode(sources, settings)
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in expected]
    if change != "renormalize_logits":
        changed = [[h.tokens for h in each] for each in found]
        assert changed != [[h.tokens for h in each] for each in before], "it changes something"


def test_what_our_search_does_not_know_goes_to_generate(family_directory: Callable[[str], Path]) -> None:
    model = load("marian", family_directory("marian"))
    assert isinstance(choose_strategy(model, None, Settings()), BeamSearch)
    assert isinstance(choose_strategy(model, None, Settings(engine="generate")), GenerateSearch)
    for name, value in (("no_repeat_ngram_size", 3), ("repetition_penalty", 1.3), ("bad_words_ids", [[4, 5]])):
        model = load("marian", family_directory("marian"))
        setattr(model.hf.generation_config, name, value)
        with pytest.warns(UserWarning, match=f"asks for {name}.* its own generate is used"):
            strategy = choose_strategy(model, None, Settings())
        assert isinstance(strategy, GenerateSearch)


@pytest.mark.parametrize("may_end", [True, False])
@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("method", COMBINERS)
def test_candidates_against_dense_distributions(
    method: str, renormalize: bool, may_end: bool, tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    model = load("marian", family_directory("marian"))
    memory = memory_of(model, tmp_path, COMBINERS[method])
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(9, model.dim, generator=generator)
    if memory is not None:  # near some stored keys, so that neighbours differ
        keys = torch.from_numpy(memory.searcher.store.segments[0].keys[:9].copy()).float() + 0.1 * keys
    logits = 3 * torch.randn(9, model.vocab_size, generator=generator)
    banned = logits[0].topk(2).indices.tolist()
    rules = Rules((model.codec.eos,), tuple(banned), True, renormalize, 0)
    mine, dense = Logits(logits.clone()), logits.clone()
    mixture = None if memory is None else memory.begin().ask(keys, mine)
    found = propose(mine, mixture, rules, 5, may_end)
    assert torch.equal(mine.values, logits), "they are read only"
    if mixture is not None:
        mixture.mix_into(Logits(dense))
    log_p = dense.double().log_softmax(1)
    log_p[:, [*banned, *([] if may_end else [model.codec.eos])]] = -torch.inf
    if renormalize:
        log_p = log_p.log_softmax(1)
    for row in range(9):
        allowed = found.log_p[row] > -torch.inf
        tokens = found.tokens[row][allowed].tolist()
        assert len(set(tokens)) == len(tokens), "each token once"
        assert set(log_p[row].topk(5).indices.tolist()) <= set(tokens)
        torch.testing.assert_close(found.log_p[row][allowed].double(), log_p[row][tokens], atol=LOG_P, rtol=0)


def test_candidates_among_some_tokens(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    """Where only some tokens were projected, they and the neighbours' tokens are proposed."""
    model = load("marian", family_directory("marian"))
    memory = memory_of(model, tmp_path, COMBINERS["robust"])
    assert memory is not None
    keys = torch.from_numpy(memory.searcher.store.segments[0].keys[:9].copy()).float()
    tokens = torch.randperm(model.vocab_size, generator=torch.Generator().manual_seed(2))[:30]
    few = Logits(torch.randn(9, 30, generator=torch.Generator().manual_seed(3)), tokens)
    mixture = memory.begin().ask(keys, few)
    found = propose(few, mixture, Rules((int(tokens[0]),), (int(tokens[1]),), True, True, 0), 5, may_end=True)
    whole = torch.full((9, model.vocab_size), -torch.inf)
    whole[:, tokens] = few.values
    dense = Logits(whole)
    mixture.mix_into(dense)
    log_p = dense.values.double().log_softmax(1)
    log_p[:, tokens[1]] = -torch.inf
    log_p = log_p.log_softmax(1)
    for row in range(9):
        allowed = found.log_p[row] > -torch.inf
        assert set(log_p[row].topk(5).indices.tolist()) <= set(found.tokens[row][allowed].tolist())
        expected = log_p[row][found.tokens[row][allowed]]
        torch.testing.assert_close(found.log_p[row][allowed].double(), expected, atol=LOG_P, rtol=0)


def test_sentences_leave_as_they_are_finished(family_directory: Callable[[str], Path]) -> None:
    """The decoder never runs more rows than there are open hypotheses, and one per sentence at first."""
    model = load("marian", family_directory("marian"))
    rows: list[int] = []

    class Counting(TorchEngine):
        def start(self, sources):  # type: ignore[no-untyped-def]
            decoder = super().start(sources)
            step = decoder.step
            decoder.step = lambda tokens: rows.append(len(tokens)) or step(tokens)  # type: ignore[method-assign, func-returns-value]
            return decoder

    sources = model.codec.encode_sources(SOURCES)
    BeamSearch(Counting(model), known(model)).decode(sources, Settings(beam=4))
    assert rows[0] == len(sources)
    assert rows[1] == 4 * len(sources)
    assert all(later <= earlier for earlier, later in pairwise(rows[1:]))
    assert rows[-1] < rows[1]


def test_generate_does_not_compute_in_eight_bits(family_directory: Callable[[str], Path]) -> None:
    model = load("marian", family_directory("marian"))
    with pytest.raises(ModelError, match="leave int8 out"):
        choose_strategy(model, None, Settings(engine="generate", precision="int8"))
    model.hf.generation_config.no_repeat_ngram_size = 3
    with pytest.raises(ModelError, match="leave int8 out"):
        choose_strategy(model, None, Settings(precision="int8"))


def test_sure_rows_are_not_searched_for(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    model = load("marian", family_directory("marian"))
    whole = memory_of(model, tmp_path, Vanilla(4, 0.5, 10.0))
    assert whole is not None
    keys = torch.from_numpy(whole.searcher.store.segments[0].keys[:6].copy()).float()
    logits = torch.randn(6, model.vocab_size, generator=torch.Generator().manual_seed(1))
    logits[[1, 4], 7] = 20.0
    asked: list[int] = []
    search = whole.searcher.search

    def counted(queries: npt.NDArray[np.float32], k: int, exclude: Exclude | None = None) -> Neighbours:
        asked.append(len(queries))
        return search(queries, k, exclude)

    whole.searcher.search = counted  # type: ignore[method-assign]
    every = whole.begin().ask(keys, Logits(logits))
    few = Memory(whole.searcher, whole.combiner, skip_above=0.99).begin().ask(keys, Logits(logits))
    assert asked == [6, 4]
    others = [0, 2, 3, 5]
    assert few.combination.lam.tolist() == pytest.approx([0.5, 0, 0.5, 0.5, 0, 0.5], abs=SHARE)
    assert torch.equal(few.observation.values[others], every.observation.values[others])
    weights = few.combination.weights[others], every.combination.weights[others]
    torch.testing.assert_close(*weights, rtol=0, atol=SHARE)
    none = Memory(whole.searcher, whole.combiner, skip_above=1e-9).begin().ask(keys, Logits(logits))
    assert none.combination.lam.sum() == 0


def test_skipping_changes_little_and_is_in_the_signature(
    tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    model = load("marian", family_directory("marian"))
    sources = model.codec.encode_sources(SOURCES)
    whole = memory_of(model, tmp_path, Vanilla(4, 0.5, 10.0))
    assert whole is not None
    rules = known(model)
    always, never, base = (
        BeamSearch(TorchEngine(model), rules, memory).decode(sources, Settings())
        for memory in (whole, Memory(whole.searcher, whole.combiner, skip_above=1e-9), None)
    )
    tokens = [[[h.tokens for h in each] for each in found] for found in (always, never, base)]
    assert tokens[1] == tokens[2] != tokens[0]
    scores = [[h.score for each in found for h in each] for found in (never, base)]
    assert scores[0] == pytest.approx(scores[1], abs=LOG_P)
    assert "skip:0.9" in Settings(skip_above=0.9).signature
    assert "skip" not in Settings().signature
    with pytest.raises(MethodError, match="give one above 0"):
        Settings(skip_above=0.0)
    with pytest.raises(ModelError, match="leave it out"):
        choose_strategy(model, None, Settings(engine="generate", skip_above=0.9))
