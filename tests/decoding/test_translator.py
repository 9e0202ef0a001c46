"""Lines in, lines out."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sentences import SENTENCES
from tolerances import SHARE
from worlds import load, make_store

from knnmt.datastore import Store
from knnmt.decoding import Settings, Translator, explain
from knnmt.decoding.splitting import Splitter
from knnmt.errors import MethodError
from knnmt.memory import Memory
from knnmt.methods import Vanilla
from knnmt.model import TranslationModel, choose_engine
from knnmt.search import Searcher

LINES = [source for source, _ in SENTENCES[20:32]]


@pytest.fixture
def model(family_directory: Callable[[str], Path]) -> TranslationModel:
    return load("marian", family_directory("marian"))


@pytest.fixture
def store(tmp_path: Path, model: TranslationModel) -> Store:
    return make_store(tmp_path / "store", model)


def translator(store: Store, model: TranslationModel, **options: object) -> Translator:
    return Translator.open(store, Vanilla(4, 0.5, 10.0), model=model, settings=Settings(beam=2, **options))  # type: ignore[arg-type]


def test_results_come_in_the_inputs_order_whatever_the_batches(store: Store, model: TranslationModel) -> None:
    one_by_one = [next(translator(store, model).translate([line])) for line in LINES]
    assert len(set(one_by_one)) > len(LINES) // 2
    for batch_size in (1, 5, 32):
        assert list(translator(store, model, batch_size=batch_size).translate(LINES)) == one_by_one


def test_a_single_line_is_no_list_of_lines(store: Store, model: TranslationModel) -> None:
    mine = translator(store, model)
    for wrong in (LINES[0], LINES[0].encode()):
        for call in (mine.translate, mine.translations):
            with pytest.raises(TypeError, match=r"takes lines, not a single (str|bytes); give \[line\]"):
                call(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes lines of str, not of int"):
        list(mine.translate([LINES[0], 5]))  # type: ignore[list-item]
    assert list(mine.translate(line for line in LINES[:2])) == list(mine.translate(LINES[:2])), "any iterable will do"


@pytest.mark.parametrize("split", [True, False])
def test_empty_lines_stay_empty(store: Store, model: TranslationModel, split: bool) -> None:
    """What nobody sees is no text either: a zero-width space, a byte order mark, NUL."""
    found = translator(store, model, split=split).translate(["", LINES[0], "   ", "\t", "\u200b", " \ufeff\0 "])
    assert [text == "" for text in found] == [True, False, True, True, True, True]
    assert list(translator(store, model).translate([])) == []


def test_a_line_is_split_and_put_together(store: Store, model: TranslationModel) -> None:
    line = f"{LINES[0]} {LINES[1]}"
    apart = translator(store, model).translate(LINES[:2])
    assert list(translator(store, model).translate([line])) == [" ".join(apart)]
    whole = next(translator(store, model, split=False).translations([line]))
    assert len(whole.sentences) == 1


def test_sentences_of_a_line() -> None:
    splitter = Splitter("deu_Latn", "ja")
    assert splitter.split("Fragen Sie Dr. Müller. Er hilft z. B. gern!") == [
        "Fragen Sie Dr. Müller.",
        "Er hilft z. B. gern!",
    ]
    assert splitter.split("  ") == []
    assert splitter.join(["a", "b"]) == "ab"


def test_over_long_input_is_a_warning(store: Store, model: TranslationModel) -> None:
    with pytest.warns(UserWarning, match=r"cut to the model's 256: Haus Haus"):
        found = list(translator(store, model, max_length=5).translate([LINES[0], "Haus " * 800]))
    assert len(found) == 2


def test_n_best(store: Store, model: TranslationModel) -> None:
    settings = Settings(beam=4, n_best=3, split=False)
    found = Translator.open(store, Vanilla(4, 0.5, 10.0), model=model, settings=settings).translations(LINES[:2])
    for translation in found:
        scores = [score for _, score in translation.n_best]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
        assert translation.text == translation.n_best[0][0]


def test_nothing_fitted_is_a_warning_and_the_base_model(store: Store, model: TranslationModel) -> None:
    with pytest.warns(UserWarning, match="Nothing was fitted"):
        alone = Translator.open(store, model=model, settings=Settings(beam=2))
    assert alone.method == "base"
    base = Translator.open(store, "base", model=model, settings=Settings(beam=2))
    assert list(alone.translate(LINES[:3])) == list(base.translate(LINES[:3]))
    assert list(alone.translate(LINES[:3])) != list(translator(store, model).translate(LINES[:3]))


def test_more_neighbours_than_pairs(store: Store, model: TranslationModel) -> None:
    with pytest.raises(MethodError, match="the store holds"):
        Translator.open(store, Vanilla(store.entry_count + 1, 0.5, 10.0), model=model)


def test_signature_names_what_matters(store: Store, model: TranslationModel) -> None:
    signature = translator(store, model).signature
    for part in (
        "method:vanilla",
        "beam:2",
        "lp:0.6",
        "maxlen:1.2x+10",
        "k:4",
        "lambda:0.5",
        "temperature:10|",
        "split:yes",
        store.fingerprint[:8],
    ):
        assert part in signature


@pytest.mark.parametrize(
    "options",
    [{"beam": 0}, {"beam": 2, "n_best": 3}, {"max_length": -1}, {"length_penalty": 1e3}, {"length_penalty": math.nan}],
)
def test_impossible_settings(options: dict[str, float]) -> None:
    with pytest.raises(MethodError):
        Settings(**options)  # type: ignore[arg-type]


def test_a_wide_beam(store: Store, model: TranslationModel) -> None:
    """More hypotheses than the caches of a decoder grow by."""
    found = [
        Translator.open(store, "base", model=model, settings=Settings(beam=70, engine=engine, precision="float32"))
        for engine in ("onnx", "generate")
    ]
    assert list(found[0].translate(LINES[:2])) == list(found[1].translate(LINES[:2]))


def test_where_nothing_was_searched_nothing_is_explained(store: Store, model: TranslationModel) -> None:
    skipping = translator(store, model, skip_above=1e-6)
    translation = next(skipping.translations(LINES[:1]))
    for token in explain(skipping, translation)["tokens"]:
        assert token["lambda"] == 0
        assert token["p"] == pytest.approx(token["p_nmt"], abs=SHARE)
        assert token["knn_top"] == token["neighbours"] == []


def test_an_explanation_is_what_decoding_did(store: Store, model: TranslationModel) -> None:
    """Scores of the beam search are the explained probabilities: they come from the same mixture."""
    model.hf.generation_config.bad_words_ids = None
    model.hf.generation_config.renormalize_logits = False
    with_memory = Translator.open(store, Vanilla(4, 0.5, 10.0), model=model, settings=Settings(beam=1, max_length=40))
    translation = next(with_memory.translations(LINES[:1]))
    answer = explain(with_memory, translation)
    assert answer["source"] == LINES[0]
    assert answer["translation"] == translation.text
    assert len(answer["tokens"]) == translation.tokens
    for token in answer["tokens"]:
        assert token["lambda"] == pytest.approx(0.5, abs=SHARE)
        assert token["p"] == pytest.approx(0.5 * token["p_knn"] + 0.5 * token["p_nmt"], abs=SHARE)
        neighbours = token["neighbours"]
        assert len(neighbours) == 4
        assert sum(neighbour["weight"] for neighbour in neighbours) == pytest.approx(1, abs=SHARE)
        votes = sum(n["weight"] for n in neighbours if n["token"] == token["token"])
        assert token["p_knn"] == pytest.approx(votes, abs=SHARE)
        mixture = {choice["token"]: 0.5 * choice["p"] for choice in token["nmt_top"]}
        for vote in token["knn_top"]:
            mixture[vote["token"]] = mixture.get(vote["token"], 0.0) + 0.5 * vote["p"]
        assert token["p"] >= max(mixture.values()) - SHARE, "greedy search took the mixture's best"
        for neighbour in neighbours:
            assert (neighbour["source"], neighbour["target"]) in SENTENCES
            assert neighbour["origin"] == "families"
            target = model.codec.encode_targets([neighbour["target"]])[0]
            assert neighbour["token"] == model.codec.tokenizer.convert_ids_to_tokens(target[neighbour["position"]])
            assert 0 <= neighbour["confidence"] <= 1
    base = explain(Translator.open(store, "base", model=model, settings=Settings(beam=1)), translation)
    assert base["tokens"][0]["lambda"] == 0
    assert base["tokens"][0]["neighbours"] == []


def test_lines_are_read_as_they_are_needed(store: Store, model: TranslationModel) -> None:
    """Sixteen batches at once, or fewer where a None says that nothing more is there."""
    mine = translator(store, model, batch_size=2, max_length=5)
    read: list[str | None] = []

    def lines() -> Iterator[str | None]:
        for line in [*LINES[:3], None, None, *LINES * 3]:
            read.append(line)
            yield line

    found = mine.translate(lines())
    assert read == []
    answers = [next(found) for _ in range(3)]
    assert read == [*LINES[:3], None]
    answers.append(next(found))
    assert len(read) == 5 + 16 * 2
    answers += found
    assert answers == list(mine.translate([*LINES[:3], *LINES * 3]))


def test_what_was_read_before_an_error_is_translated_first(store: Store, model: TranslationModel) -> None:
    def lines() -> Iterator[str | None]:
        yield LINES[0]
        yield None
        raise MethodError("the end")

    found = translator(store, model).translate(lines())
    assert next(found) == next(translator(store, model).translate(LINES[:1]))
    with pytest.raises(MethodError, match="the end"):
        next(found)


@pytest.mark.to_the_bit
def test_settings_of_a_call(store: Store, model: TranslationModel) -> None:
    mine = translator(store, model)
    for options in ({"beam": 4, "n_best": 3}, {"max_length": 4}, {"length_penalty": 0.0}, {"split": False}):
        settings = replace(mine.settings, **options)
        other = Translator.open(store, Vanilla(4, 0.5, 10.0), model=model, settings=settings)
        assert list(mine.translations(LINES[:4], settings)) == list(other.translations(LINES[:4]))
    assert mine.settings.beam == 2
    for name, value in (("engine", "torch"), ("precision", "float32"), ("in_memory", True), ("skip_above", 0.5)):
        with pytest.raises(MethodError, match=f"made with {name}=.*; make another translator"):
            mine.translate(LINES, replace(mine.settings, **{name: value}))  # type: ignore[arg-type]
    with pytest.raises(MethodError, match="--beam must be less"):
        mine.translate(LINES, replace(mine.settings, beam=model.vocab_size))


@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_a_translator_of_parts(engine: str, store: Store, model: TranslationModel) -> None:
    settings = Settings(beam=2, engine=engine)
    opened = Translator.open(store, Vanilla(4, 0.5, 10.0), model=model, settings=settings)
    expected = list(opened.translate(LINES))
    memory = Memory(Searcher(store), Vanilla(4, 0.5, 10.0))
    for given in (model, choose_engine(model, engine)):
        made = Translator(given, memory, settings)
        assert list(made.translate(LINES)) == expected
        assert made.signature == opened.signature
    alone = Translator(model, settings=settings)
    assert alone.method == "base"
    assert "store:" not in alone.signature
    assert list(alone.translate(LINES[:3])) != expected[:3]


def test_settings_and_memory_skip_alike(store: Store, model: TranslationModel) -> None:
    memory = Memory(Searcher(store), Vanilla(4, 0.5, 10.0), skip_above=0.9)
    assert "skip:0.9" in Translator(model, memory).signature
    with pytest.raises(MethodError, match="give both the same"):
        Translator(model, memory, Settings())
