"""The length penalty of a fitted combiner: how it is found, kept and used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentences import SENTENCES

from knnmt.combiner import Combiner
from knnmt.datastore import Store
from knnmt.decoding import Settings, Translator
from knnmt.errors import MethodError
from knnmt.model import TranslationModel
from knnmt.workflow import evaluate, fit
from knnmt.workflow.session import Session

WriteCorpus = Callable[..., list[Path]]
DEV = [(f"{source} Bitte.", target.replace(".", "!")) for source, target in SENTENCES[20:32]]
VANILLA: dict[str, Any] = {"k": 4, "decode_best": 0}


@pytest.fixture
def dev(write_corpus: WriteCorpus) -> list[Path]:
    return write_corpus(DEV, "dev")


@pytest.mark.parametrize(
    ("peak", "tried"),
    [
        (0.6, [0.2, 0.6, 1.0]),
        (1.5, [0.6, 1.0, 1.4, 1.8]),
        (1.4, [0.6, 1.0, 1.4, 1.8]),
        (0.1, [-0.2, 0.2, 0.6, 1.0]),
        (9.0, [0.6, 1.0, 1.4, 1.8, 2.2, 2.6, 3.0]),
    ],
)
def test_it_climbs_as_long_as_bleu_rises(
    store: Store,
    model: TranslationModel,
    dev: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    peak: float,
    tried: list[float],
) -> None:
    asked: list[float] = []

    def bleu(self: Session, settings: Settings, combiner: Combiner, sentences: int) -> float:
        assert settings.length_penalty is not None
        assert sentences == 200
        asked.append(settings.length_penalty)
        return 30 - abs(settings.length_penalty - peak)

    monkeypatch.setattr(Session, "bleu", bleu)
    report = fit(store.path, dev, "vanilla", model=model, tune_length_penalty=True, **VANILLA)
    assert len(asked) == len(set(asked)), "each is translated once"
    assert sorted(asked) == tried
    found = report.to_json()
    assert [each["penalty"] for each in found["length_penalties"]] == tried
    best = min(tried, key=lambda penalty: abs(penalty - peak))
    assert found["length_penalty"] == report.combiner.record["length_penalty"] == best
    assert report.fitted.tables[-1].rows[tried.index(best)] == [f"{best:g}", f"{30 - abs(best - peak):.2f}"]
    assert report.fitted.tables[-1].chosen == (tried.index(best), 1)
    translator = Translator.open(report.store, model=model)
    assert translator.settings.penalty == best


def test_translations_use_it_unless_another_is_asked_for(
    store: Store, model: TranslationModel, dev: list[Path], write_corpus: WriteCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Session, "bleu", lambda self, settings, combiner, count: settings.length_penalty)
        tuned = fit(store.path, dev, "vanilla", model=model, tune_length_penalty=True, **VANILLA).store
    translator = Translator.open(tuned, model=model)
    assert "|lp:3|" in translator.signature
    lines = [source for source, _ in SENTENCES[:4]]
    short = Settings(max_length=8, split=False)
    translated = [
        [each.n_best for each in translator.translations(lines, settings)]
        for settings in (
            Settings(max_length=8, split=False, n_best=2),
            Settings(max_length=8, split=False, n_best=2, length_penalty=3.0),
            Settings(max_length=8, split=False, n_best=2, length_penalty=0.6),
        )
    ]
    assert translated[0] == translated[1]
    assert translated[0] != translated[2]
    assert "|lp:0.6|" in Translator.open(tuned, "base", model=model).signature, "it belongs to the combiner"
    asked = Translator.open(tuned, settings=Settings(length_penalty=0.6), model=model)
    assert "|lp:0.6|" in asked.signature
    test = write_corpus(SENTENCES[:3], "test")
    runs = evaluate(tuned, test, settings=short, model=model).runs
    assert "|lp:3|" in runs["vanilla"].signature
    alike = evaluate(tuned, test, settings=Settings(max_length=8, split=False, length_penalty=1.0), model=model).runs
    assert all("|lp:1|" in run.signature for run in alike.values())


def test_it_needs_dev_pairs(store: Store, model: TranslationModel) -> None:
    with pytest.raises(MethodError, match="tuned on dev pairs"):
        fit(store.path, method="vanilla", model=model, tune_length_penalty=True, **VANILLA)


def test_bleu_is_of_the_first_pairs(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    """With real translations: the penalty that is kept has the best BLEU of those that were tried."""
    report = fit(store.path, dev, "vanilla", model=model, tune_length_penalty=True, **VANILLA)
    tried = {each["penalty"]: each["bleu"] for each in report.to_json()["length_penalties"]}
    assert tried[report.to_json()["length_penalty"]] == max(tried.values())
    assert 0.6 in tried
