"""The steps of fitting and evaluating, without names in a store: as a study uses them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sentences import SENTENCES
from tolerances import NLL

from knnmt.combiner import Needs
from knnmt.datastore import Store
from knnmt.decoding import Settings
from knnmt.methods import RobustMethod, Vanilla, VanillaMethod
from knnmt.model import TranslationModel
from knnmt.search import Searcher
from knnmt.workflow import evaluate, fit_method, keep, run_systems, score_runs
from knnmt.workflow.session import Session

WriteCorpus = Callable[..., list[Path]]
DEV = [(f"{source} Bitte.", target.replace(".", "!")) for source, target in SENTENCES[20:26]]
QUICK = Settings(beam=1, max_length=8)


@pytest.fixture
def session(store: Store, model: TranslationModel, write_corpus: WriteCorpus) -> Session:
    return Session.open(store, write_corpus(DEV, "dev"), model=model)


def test_what_was_collected_is_not_searched_for_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    search = Searcher.search

    def spy(self: Searcher, queries: object, k: int, exclude: object = None) -> object:
        searches.append(k)
        return search(self, queries, k, exclude)  # type: ignore[arg-type]

    monkeypatch.setattr(Searcher, "search", spy)
    wide = session.features(Needs(8, top=8))
    assert set(searches) == {8}
    searches.clear()
    assert session.features(Needs(4, top=2)) is wide
    assert session.features(Needs(8, top=8)) is wide
    assert searches == []
    assert session.features(Needs(8, top=8, context=frozenset({"prefix"}))) is not wide
    assert session.features(Needs(16)).k == 16
    assert set(searches) == {8, 16}


def test_nothing_is_written_until_it_is_kept(session: Session) -> None:
    before = session.store
    fitted = fit_method(RobustMethod(updates=5, validate_from=1), session)
    assert before.latest() is before
    assert fitted.combiner.record["nll"] == pytest.approx(session.features(Needs(8, 8)).judge(fitted.combiner)[0])
    after = keep(before, "mine", fitted.combiner)
    assert set(after.combiners) == {"mine"}


def test_methods_of_one_session_share_features(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.features(Needs(32, top=32))
    monkeypatch.setattr(Searcher, "search", lambda *_: pytest.fail("searched again"))
    losses = [
        fit_method(method, session).combiner.record["nll"]
        for method in (VanillaMethod(decode_best=0), RobustMethod(updates=2), RobustMethod(updates=2, k=16))
    ]
    assert len(set(losses)) == 3


def test_systems_that_no_store_holds(session: Session) -> None:
    systems = {"alone": None, "little": Vanilla(4, 0.1, 10.0), "much": Vanilla(4, 0.9, 10.0)}
    runs = run_systems(session, systems, QUICK)
    assert list(runs) == list(systems)
    assert [run.mean_lambda for run in runs.values()] == [None, pytest.approx(0.1), pytest.approx(0.9)]
    assert runs["alone"].translations != runs["much"].translations
    assert runs["little"].signature.startswith("method:little|")
    result = score_runs(session, runs, baseline="little")
    assert result.scores.baseline == "little"
    assert set(result.scores.p_values) == {"alone", "much"}
    assert not session.store.latest().combiners


def test_it_is_what_evaluate_does(session: Session, write_corpus: WriteCorpus) -> None:
    combiner = Vanilla(4, 0.5, 10.0)
    store = keep(session.store, "half", combiner)
    whole = evaluate(store, write_corpus(DEV, "dev"), ["base", "half"], settings=QUICK, model=session.model)
    parts = score_runs(session, run_systems(session, {"base": None, "half": combiner}, QUICK), "base")
    assert parts.runs["half"].translations == whole.runs["half"].translations
    assert parts.runs["half"].nll == pytest.approx(whole.runs["half"].nll, abs=NLL)
    assert parts.scores.systems["half"].bleu == whole.scores.systems["half"].bleu
