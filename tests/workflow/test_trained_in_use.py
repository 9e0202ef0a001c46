"""Combiners of all methods in one store, as decoding and evaluating use them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sentences import SENTENCES
from tolerances import NLL, SHARE, TRUST
from worlds import QUICK

from knnmt.combiner import observe
from knnmt.corpus import Pair
from knnmt.datastore import Store
from knnmt.decoding import Settings, Translator, explain
from knnmt.methods import Robust, default_of, load_combiner
from knnmt.model import TorchEngine, TranslationModel
from knnmt.search import Searcher
from knnmt.training import collect_features
from knnmt.workflow import evaluate, fit, use

WriteCorpus = Callable[..., list[Path]]
DEV = [(f"{source} Bitte.", target.replace(".", "!")) for source, target in SENTENCES[20:32]]


@pytest.fixture
def fitted(store: Store, model: TranslationModel, write_corpus: WriteCorpus) -> Store:
    """Of each method one, and a robust of another K that looks at few of the model's choices."""
    dev = write_corpus(DEV, "dev")
    fit(store.path, dev, "vanilla", k=2, model=model, decode_best=0)
    fit(store.path, dev, "adaptive", k=4, model=model, **QUICK)
    fit(store.path, dev, "robust", k=16, name="wide", model=model, top=1, **QUICK)
    fit(store.path, dev, model=model, k=4, **QUICK)
    return Store.open(store.path)


def test_decoding_uses_robust_and_explains_what_it_did(fitted: Store, model: TranslationModel) -> None:
    fitted = use(fitted, "robust")
    assert default_of(fitted).name == "robust"
    lines = [source for source, _ in DEV[:3]]
    translator = Translator.open(fitted, model=model, settings=Settings(beam=2, max_length=12, split=False))
    assert translator.method == "robust"
    combiner = load_combiner(fitted, "robust")
    assert isinstance(combiner, Robust)
    translations = list(translator.translations(lines))
    lambdas, constants, temperatures = set(), set(), set()
    for translation in translations:
        tokens = explain(translator, translation)["tokens"]
        (sentence,) = translation.sentences
        with torch.inference_mode():
            engine = TorchEngine(model)
            states = engine.teacher_forced([sentence.source], [sentence.target])
            logits = engine.project(states.hidden)
            found = Searcher(fitted).search(states.keys.numpy(), combiner.k)
            answer = combiner.combine(observe(found, logits, combiner.needs.top))
        assert len(tokens) == len(states.tokens)
        for row, token in enumerate(tokens):
            assert token["lambda"] == pytest.approx(answer.lam[row].item(), rel=TRUST)
            assert token["temperature"] == pytest.approx(answer.temperature[row].item(), rel=TRUST)
            assert [each["c"] for each in token["neighbours"]] == pytest.approx(answer.c[row].tolist(), abs=TRUST)
            assert [each["weight"] for each in token["neighbours"]] == pytest.approx(
                answer.weights[row].tolist(), abs=TRUST
            )
            lam = token["lambda"]
            assert token["p"] == pytest.approx(lam * token["p_knn"] + (1 - lam) * token["p_nmt"], abs=SHARE)
            lambdas.add(round(lam, 3))
            temperatures.add(round(token["temperature"], 3))
            constants |= {round(each["c"], 3) for each in token["neighbours"]}
    assert min(len(lambdas), len(temperatures), len(constants)) > 3, "they differ from token to token"
    base = list(Translator.open(fitted, "base", model=model, settings=translator.settings).translate(lines))
    assert [translation.text for translation in translations] != base


def test_evaluate_asks_each_with_its_own_neighbours(
    fitted: Store, model: TranslationModel, write_corpus: WriteCorpus
) -> None:
    """One search for the most that any looks at must not change what the others see."""
    test = SENTENCES[:5]
    result = evaluate(fitted, write_corpus(test, "test"), settings=Settings(beam=1, max_length=5), model=model)
    assert set(result.runs) == {"base", "vanilla", "adaptive", "robust", "wide"}
    pairs = [Pair(source, target, "test", number) for number, (source, target) in enumerate(test)]
    for name, run in result.runs.items():
        combiner = load_combiner(fitted, name)
        if combiner is None:
            continue
        features = collect_features(TorchEngine(model), Searcher(fitted), pairs, combiner.needs)
        nll, lam = features.judge(combiner)
        assert run.nll == pytest.approx(nll, abs=NLL)
        assert run.mean_lambda == pytest.approx(lam, abs=TRUST)
        assert run.gold_in_k == pytest.approx(features.gold_in_k(combiner.k))
    assert len({round(run.nll, 4) for run in result.runs.values()}) == 5
