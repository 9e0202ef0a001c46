"""Fit a method to a store on dev pairs, and keep it in the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knnmt.combiner import BASE, METHODS, Combiner
from knnmt.datastore import Store, StoreWriter, storage_errors
from knnmt.datastore.manifest import check_combiner_name
from knnmt.decoding import Settings, Translator
from knnmt.errors import MethodError
from knnmt.evaluation import corpus_bleu
from knnmt.model import TranslationModel
from knnmt.training import Features, collect_features
from knnmt.tuning import KS, Point, best_few, likelihood_grid
from knnmt.workflow.session import Session


@dataclass(frozen=True)
class FitReport:
    """What fitting found.

    Attributes:
        store: as it is now, with the combiner in it
        name: of the combiner in the store
        nll, base_nll: of the dev tokens, with it and without
        gold_in_k: share of dev tokens found among the neighbours
        median_nearest: of the squared distances to the nearest neighbour
        grid: all places that were tried, best likelihood first
        bleu: of the places that were decoded, with the BLEU on the dev sentences decoded
        leaked: dev sentences that are in the store
        skipped: dev sentences left out because they are longer than the model takes
    """

    store: Store
    name: str
    combiner: Combiner
    nll: float
    base_nll: float
    mean_lambda: float
    gold_in_k: float
    median_nearest: float
    grid: list[Point]
    bleu: list[tuple[Point, float]]
    leaked: int
    skipped: int


def fit(
    store: Store | str | Path,
    corpus: Sequence[str | Path],
    method: str = "vanilla",
    *,
    name: str | None = None,
    k: int | None = None,
    limit: int | None = None,
    decode_best: int = 3,
    decode_sentences: int = 100,
    settings: Settings | None = None,
    model: TranslationModel | str | None = None,
    device: str = "auto",
) -> FitReport:
    """Tune a method on dev pairs; it is kept in the store under `name`.

    Args:
        store: a store or its directory
        corpus: dev files, which must not be in the store
        method: one of `knnmt.combiner.METHODS`
        name: to keep several side by side; the method's by default
        k: neighbours; by default tuned too
        decode_best: how many places of the grid are decoded and compared by BLEU; 0: likelihood decides
        decode_sentences: the first so many dev sentences are decoded
        model: the store's own, or where it is now if it was moved

    Example:
        knnmt.fit("memory", ["dev.de", "dev.en"], method="vanilla")
    """
    if method not in METHODS:
        raise MethodError(f"There is no method {method}; choose one of {', '.join(METHODS)}.")
    name = name or method
    if name == BASE:
        raise MethodError(f"The name {BASE} is the model's own; choose another.")
    check_combiner_name(name)
    store = Store.open(store)
    ks = _neighbours(store, k)
    session = Session.open(store, corpus, limit=limit, model=model, device=device)
    features = collect_features(session.model, session.searcher, session.pairs, max(ks))
    grid = likelihood_grid(features, ks)
    bleu = _decode(session, best_few(grid, decode_best), decode_sentences, settings) if decode_best > 1 else []
    best = max(bleu, key=lambda scored: scored[1])[0] if bleu else grid[0]
    combiner = best.combiner()
    nll, mean_lambda = features.judge(combiner)
    combiner.record = _record(session, features, nll, bleu)
    return FitReport(
        store=_keep(session.store, name, combiner),
        name=name,
        combiner=combiner,
        nll=nll,
        base_nll=features.base_nll,
        mean_lambda=mean_lambda,
        gold_in_k=features.gold_in_k(combiner.k),
        median_nearest=features.median_nearest,
        grid=grid,
        bleu=bleu,
        leaked=sum(session.in_store()),
        skipped=features.skipped,
    )


def _neighbours(store: Store, k: int | None) -> list[int]:
    if k is not None and k < 1:
        raise MethodError(f"K is {k}, which finds no neighbour; give 1 or more.")
    if k is not None and k > store.pairs:
        raise MethodError(f"K is {k}, but the store {store.path} holds only {store.pairs} pairs; lower --k.")
    return [k] if k is not None else [each for each in KS if each <= store.pairs] or [store.pairs]


def _decode(
    session: Session, points: list[Point], sentences: int, settings: Settings | None
) -> list[tuple[Point, float]]:
    pairs = session.pairs[:sentences]
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    settings = settings or Settings(split=False)
    scored = []
    for point in points:
        translator = Translator(
            session.store, point.combiner(), settings=settings, model=session.model, searcher=session.searcher
        )
        scored.append((point, corpus_bleu(translator.translate(sources), references)))
    return scored


def _record(session: Session, features: Features, nll: float, bleu: list[tuple[Point, float]]) -> dict[str, Any]:
    return {
        "model": session.store.model.fingerprint,
        "store": session.store.fingerprint,
        "dev": session.summary.digest,
        "dev_pairs": session.summary.pairs,
        "dev_tokens": len(features),
        "nll": nll,
        "base_nll": features.base_nll,
        "gold_in_k": features.gold_in_k(features.observation.values.shape[1]),
        "median_nearest": features.median_nearest,
        "bleu": [{"k": p.k, "lambda": p.lam, "temperature": p.temperature, "bleu": score} for p, score in bleu],
    }


def _keep(store: Store, name: str, combiner: Combiner) -> Store:
    with StoreWriter(store.path, store.model) as writer:
        directory = writer.new_directory("combiners", name)
        with storage_errors(store.path):
            combiner.save(directory)
        return writer.commit(combiner=(name, directory))
