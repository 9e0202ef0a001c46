"""Compare systems on test pairs: scores, significance, speed, and figures that explain a low score.

There are two steps, and each can be used alone: `run_systems` translates, `score_runs` scores.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knnmt.combiner import Combiner, Needs
from knnmt.datastore import Store
from knnmt.decoding import Settings, Translator
from knnmt.errors import EvaluationError
from knnmt.evaluation import LambdaPoint, Scores, comet_scores, find_comet, lambda_curve, score_systems
from knnmt.memory import Memory
from knnmt.methods import BASE, load_combiner
from knnmt.model import TranslationModel
from knnmt.training import Features
from knnmt.workflow.session import Session


@dataclass(frozen=True)
class Run:
    """A system's translations, their speed, and its teacher-forced figures.

    Attributes:
        gold_in_k, mean_lambda: None for the base model, which has no neighbours
        curve: λ by the model's confidence; empty for the base model
        skipped: sentences too long for the model, which NLL, gold_in_k and mean λ leave out
    """

    translations: list[str]
    sentences_per_second: float
    tokens_per_second: float
    cpu_seconds: float
    nll: float
    gold_in_k: float | None
    mean_lambda: float | None
    curve: list[LambdaPoint]
    skipped: int
    signature: str


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    Attributes:
        unseen: scores without the leaked sentences; None if there are none, or only these
        leaked: test sentences whose normalised source is in the store
        skipped: test sentences too long for the model, which NLL, gold_in_k and mean λ leave out
    """

    runs: dict[str, Run]
    scores: Scores
    unseen: Scores | None
    comet: dict[str, float]
    sentences: int
    leaked: int
    skipped: int

    def to_json(self) -> dict[str, Any]:
        """A stable form for programs."""
        return {
            "systems": {name: self._system(name) for name in self.runs},
            "significance": {"baseline": self.scores.baseline}
            | {name: {"bleu_p": p.bleu_p, "chrf_p": p.chrf_p} for name, p in self.scores.p_values.items()},
            "sentences": self.sentences,
            "leaked": self.leaked,
            "skipped": self.skipped,
            "signature": self.scores.signatures | {name: run.signature for name, run in self.runs.items()},
        }

    def _system(self, name: str) -> dict[str, Any]:
        run, score = self.runs[name], self.scores.systems[name]
        unseen = self.unseen.systems[name] if self.unseen else None
        return {
            "bleu": score.bleu,
            "bleu_ci": list(score.bleu_ci),
            "brevity_penalty": score.brevity_penalty,
            "chrf": score.chrf,
            "chrf_ci": list(score.chrf_ci),
            "comet": self.comet.get(name),
            "bleu_unseen": unseen.bleu if unseen else None,
            "chrf_unseen": unseen.chrf if unseen else None,
            "sentences_per_second": run.sentences_per_second,
            "tokens_per_second": run.tokens_per_second,
            "cpu_seconds": run.cpu_seconds,
            "gold_in_k": run.gold_in_k,
            "mean_lambda": run.mean_lambda,
            "nll": run.nll,
            "lambda_by_confidence": [point.to_json() for point in run.curve],
        }


def evaluate(
    store: Store | str | Path,
    corpus: Sequence[str | Path] | str | Path,
    methods: Sequence[str] | str | None = None,
    *,
    baseline: str | None = None,
    limit: int | None = None,
    comet: bool = False,
    comet_model: str | None = None,
    settings: Settings | None = None,
    force: bool = False,
    model: TranslationModel | str | None = None,
    device: str = "auto",
) -> Evaluation:
    """Translate test pairs with several methods and compare them.

    Args:
        store: a store or its directory
        corpus: test files
        methods: names of fitted combiners, and `base`; by default base and all fitted ones
        baseline: the method that the others are compared with; by default the first one
        comet: also run the `comet-score` command; `comet_model` names its model or checkpoint
        force: do not check that the test pairs are in the model's languages
        model: the store's model, or its new path if it was moved

    Example:
        knnmt.evaluate("memory", ["test.de", "test.en"], methods=["base", "vanilla"])
    """
    store = Store.open(store)
    methods = [methods] if isinstance(methods, str) else methods
    methods = list(methods) if methods else [BASE, *sorted(store.combiners)]
    baseline = baseline or methods[0]
    if baseline not in methods:
        raise EvaluationError(f"The baseline {baseline} is not among the methods {', '.join(methods)}; add it.")
    # report wrong arguments before anything runs
    systems = {name: load_combiner(store, name) for name in methods}
    asked = comet or comet_model is not None
    if asked:
        find_comet(comet_model)
    settings = replace(settings or Settings(), split=False)
    settings.check_vocabulary(store.model.vocab_size)
    session = Session.open(store, corpus, limit=limit, model=model, device=device, settings=settings, force=force)
    result = score_runs(session, run_systems(session, systems, settings), baseline)
    if not asked:
        return result
    return replace(result, comet=_comet(session, result.runs, comet_model))


def run_systems(
    session: Session, systems: Mapping[str, Combiner | None], settings: Settings | None = None
) -> dict[str, Run]:
    """Translate a session's pairs with several combiners, which need not be in a store; None: the model alone.

    Args:
        settings: settings of the beam search; lines are not split
    """
    settings = replace(settings or Settings(), split=False)
    needs = Needs.of_all([Needs(1, top=1), *(combiner.needs for combiner in systems.values() if combiner)])
    features = session.features(replace(needs, k=min(needs.k, session.store.entry_count)))
    if settings.skip_above < 1:
        features = features.skipping(settings.skip_above)
    return {name: _run(session, name, combiner, features, settings) for name, combiner in systems.items()}


def score_runs(session: Session, runs: dict[str, Run], baseline: str) -> Evaluation:
    """Score translations of a session's pairs, and compare each system with the baseline."""
    references = [pair.target for pair in session.pairs]
    hypotheses = {name: run.translations for name, run in runs.items()}
    leaked = session.in_store()
    target_lang = session.model.codec.target_lang
    return Evaluation(
        runs=runs,
        scores=score_systems(hypotheses, references, baseline, target_lang=target_lang),
        unseen=_unseen(hypotheses, references, baseline, leaked, target_lang),
        comet={},
        skipped=max((run.skipped for run in runs.values()), default=0),
        sentences=len(references),
        leaked=sum(leaked),
    )


def _run(session: Session, name: str, combiner: Combiner | None, features: Features, settings: Settings) -> Run:
    memory = None if combiner is None else Memory(session.searcher, combiner, settings.skip_above)
    translator = Translator(session.model, memory, settings, method=name, store=session.store)
    wall, cpu = time.perf_counter(), time.process_time()
    translations = list(translator.translations([pair.source for pair in session.pairs]))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    nll, mean_lambda = (features.base_nll, None) if combiner is None else features.judge(combiner)
    return Run(
        translations=[translation.text for translation in translations],
        sentences_per_second=len(translations) / wall,
        tokens_per_second=sum(translation.tokens for translation in translations) / wall,
        cpu_seconds=cpu,
        nll=nll,
        gold_in_k=None if combiner is None else features.gold_in_k(combiner.k),
        mean_lambda=mean_lambda,
        curve=[] if combiner is None else lambda_curve(features, combiner),
        skipped=features.skipped,
        signature=translator.signature,
    )


def _comet(session: Session, runs: dict[str, Run], model: str | None) -> dict[str, float]:
    """COMET scores; none if the command fails, so that the translations are not lost."""
    hypotheses = {name: run.translations for name, run in runs.items()}
    sources, references = [pair.source for pair in session.pairs], [pair.target for pair in session.pairs]
    try:
        return comet_scores(sources, hypotheses, references, model)
    except EvaluationError as error:
        warnings.warn(str(error), stacklevel=3)
        return {}


def _unseen(
    hypotheses: dict[str, list[str]],
    references: list[str],
    baseline: str,
    leaked: list[bool],
    target_lang: str | None,
) -> Scores | None:
    if not any(leaked) or all(leaked):
        return None
    kept = [i for i, found in enumerate(leaked) if not found]
    return score_systems(
        {name: [lines[i] for i in kept] for name, lines in hypotheses.items()},
        [references[i] for i in kept],
        baseline,
        target_lang=target_lang,
    )
