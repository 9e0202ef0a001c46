"""Fit a method to a store, on dev pairs or on the store's own sentences, and keep it in the store."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knnmt.combiner import BASE, METHODS, Combiner, Needs, Robust, Vanilla, is_leaked, load_combiner
from knnmt.datastore import Store, StoreWriter, storage_errors
from knnmt.datastore.manifest import check_combiner_name
from knnmt.decoding import Settings
from knnmt.errors import MethodError, StoreBusyError
from knnmt.model import TranslationModel
from knnmt.training import Features, Recipe, Training, check_projectable, collect_features, collect_stored
from knnmt.tuning import KS, Point
from knnmt.workflow.combiners import AUTO
from knnmt.workflow.fit_trained import Networks, make_combiner, train_combiner
from knnmt.workflow.fit_vanilla import tune_vanilla
from knnmt.workflow.session import Session

K = 8  # neighbours of trained methods
LARGEST_K = 1024  # a search for more takes longer than the model
# Keys that stand beside combiners' names in an evaluation's JSON, and what `knnmt use` takes for no choice.
_TAKEN = (BASE, "baseline", "bleu", "chrf", AUTO)


@dataclass(frozen=True)
class FitReport:
    """What fitting found.

    Attributes:
        store: as it is now
        name: of the combiner in the store
        kept: whether it is in the store now; not where the one it would have replaced is better
        previous_nll: of the dev tokens with the combiner that had its name before, on the store as it is now
        nll, base_nll: of the dev tokens, with it and without
        gold_in_k: share of dev tokens found among the neighbours
        median_nearest: of the squared distances to the nearest neighbour
        grid: vanilla: all places that were tried, best likelihood first
        bleu: vanilla: the places that were decoded, with the BLEU on the dev sentences decoded
        training: adaptive and robust: how it went
        self_trained: on the store's own sentences, without dev pairs
        leaked: dev sentences that are in the store
        skipped: dev sentences left out because they are longer than the model takes
    """

    store: Store
    name: str
    kept: bool
    previous_nll: float | None
    combiner: Combiner
    nll: float
    base_nll: float
    mean_lambda: float
    gold_in_k: float
    median_nearest: float
    grid: list[Point]
    bleu: list[tuple[Point, float]]
    training: Training | None
    self_trained: bool
    leaked: int
    skipped: int


def fit(
    store: Store | str | Path,
    corpus: Sequence[str | Path] | str | Path = (),
    method: str = "robust",
    *,
    name: str | None = None,
    k: int | None = None,
    without: Iterable[str] = (),
    networks: Networks | None = None,
    recipe: Recipe | None = None,
    sentences: int = 2000,
    limit: int | None = None,
    decode_best: int = 3,
    decode_sentences: int = 100,
    settings: Settings | None = None,
    force: bool = False,
    model: TranslationModel | str | None = None,
    device: str = "auto",
) -> FitReport:
    """Train (adaptive, robust) or tune (vanilla) a method; it is kept in the store under `name`.

    A combiner that has the name already stays if it is better on the same dev pairs.

    Args:
        store: a store or its directory
        corpus: dev files, which must not be in the store; none: sentences drawn from the store, which are
            searched as if they, and sentences with the same text, were not in it
        method: one of `knnmt.combiner.METHODS`
        name: to keep several side by side; the method's by default
        k: neighbours; 8 by default, and for vanilla tuned too
        without: parts of the robust method to leave out, as in the paper's ablation: `wp`, `dc`,
            `vector-perturbation`, `pseudo-pairs`, `robust-training`, `decline`
        networks: sizes and forms of the networks
        recipe: of training
        sentences: how many are drawn from the store where there are no dev files
        decode_best: vanilla: how many places of the grid are decoded and compared by BLEU; 0: likelihood decides
        decode_sentences: vanilla: the first so many dev sentences are decoded
        force: replace a better combiner too, and do not ask whether the dev pairs are in the model's languages
        model: the store's own, or where it is now if it was moved

    Example:
        knnmt.fit("memory", ["dev.de", "dev.en"])
        knnmt.fit("memory", method="adaptive", k=16, name="adaptive-16")
    """
    if method not in METHODS:
        raise MethodError(f"There is no method {method}; choose one of {', '.join(METHODS)}.")
    name = name or method
    if name in _TAKEN:
        raise MethodError(f"The name {name} means something else to other commands; choose another.")
    check_combiner_name(name)
    store = Store.open(store)
    networks, recipe = (networks or Networks()).leaving_out(method, without, recipe or Recipe())
    ks = _neighbours(store, k, method)
    if not corpus and (sentences < 1 or limit is not None):
        raise MethodError("Without dev files, say with --sentences (1 or more) how many of the store's are drawn.")
    exact = recipe.exact_perturbation and method == Robust.method
    if exact:
        check_projectable(store.model.key_layer)
    if (networks.top or 0) > store.model.vocab_size:
        raise MethodError(f"The model knows {store.model.vocab_size} tokens, but --top is {networks.top}; lower it.")
    needs = Needs(max(ks)) if method == Vanilla.method else make_combiner(method, ks[0], 1.0, networks, 0).needs
    with suppress(StoreBusyError), StoreWriter(store.path, store.model):
        pass  # a store that cannot be written is reported now, not after the work
    session = Session.open(store, corpus, limit=limit, model=model, device=device, settings=settings, force=force)

    def collect(needs: Needs) -> Features:
        return _collect(session, needs, sentences, recipe.seed, exact)

    features = collect(needs)
    if not features.observation.exists.any():
        raise MethodError(f"No other sentence of {store.path} is left to learn from; give dev pairs.")
    grid: list[Point] = []
    bleu: list[tuple[Point, float]] = []
    training: Training | None = None
    combiner: Combiner
    if method == Vanilla.method:
        # the store's own sentences cannot be decoded: each would find itself
        combiner, grid, bleu = tune_vanilla(
            session, features, ks, decode_best if corpus else 0, decode_sentences, settings
        )
    else:
        combiner, training = train_combiner(session, features, method, ks[0], networks, recipe)
    nll, mean_lambda = features.judge(combiner)
    leaked = sum(session.in_store())
    combiner.record = _record(session, features, combiner, nll) | {
        "leaked": leaked,
        "sentences": len(features.lengths),
        "bleu": [{"k": p.k, "lambda": p.lam, "temperature": p.temperature, "bleu": score} for p, score in bleu],
        "training": None if training is None else _training_record(recipe, training),
    }
    previous = _previous(store, name)
    previous_nll = None if previous is None else _judged(previous, features, collect)
    # on pairs that are in the store, the one that trusts it most looks best
    honest = previous is None or is_leaked(previous.record) or not is_leaked(combiner.record)
    kept = force or previous_nll is None or (honest and nll <= previous_nll)
    return FitReport(
        store=_keep(session.store, name, combiner) if kept else store,
        name=name,
        kept=kept,
        previous_nll=previous_nll,
        combiner=combiner,
        nll=nll,
        base_nll=features.base_nll,
        mean_lambda=mean_lambda,
        gold_in_k=features.gold_in_k(combiner.k),
        median_nearest=features.median_nearest,
        grid=grid,
        bleu=bleu,
        training=training,
        self_trained=not corpus,
        leaked=leaked,
        skipped=features.skipped,
    )


def _neighbours(store: Store, k: int | None, method: str) -> list[int]:
    if k is not None and k < 1:
        raise MethodError(f"K is {k}, which finds no neighbour; give 1 or more.")
    if k is None and method != Vanilla.method:
        k = K
    if k is not None and k > store.entry_count:
        raise MethodError(f"K is {k}, but the store {store.path} holds only {store.entry_count} entries; lower --k.")
    if k is not None and k > min(LARGEST_K, store.model.vocab_size):
        raise MethodError(f"K is {k}, but at most {min(LARGEST_K, store.model.vocab_size)} are possible; lower --k.")
    return [k] if k is not None else [each for each in KS if each <= store.entry_count] or [store.entry_count]


def _collect(session: Session, needs: Needs, sentences: int, seed: int, exact: bool) -> Features:
    if session.summary is not None:
        return collect_features(session.model, session.searcher, session.pairs, needs, keep_queries=exact)
    return collect_stored(session.model, session.searcher, sentences, needs, seed=seed, keep_queries=exact)


def _previous(store: Store, name: str) -> Combiner | None:
    """The combiner that has the name now; None where there is none, or none that can be used."""
    try:
        return load_combiner(store, name)
    except MethodError:
        return None


def _judged(previous: Combiner, features: Features, collect: Callable[[Needs], Features]) -> float:
    """NLL on the same dev pairs, with features of its own where it looks at more than they have."""
    columns = features.observation
    if previous.k > columns.distances.shape[1] or previous.needs.top > columns.log_p_top.shape[1]:
        features = collect(previous.needs)
    return features.judge(previous)[0]


def _record(session: Session, features: Features, combiner: Combiner, nll: float) -> dict[str, Any]:
    summary = session.summary
    return {
        "model": session.store.model.fingerprint,
        "store": session.store.fingerprint,
        "dev": summary.digest if summary else None,
        "dev_pairs": summary.pairs if summary else None,
        "dev_tokens": len(features),
        "nll": nll,
        "base_nll": features.base_nll,
        "gold_in_k": features.gold_in_k(combiner.k),
        "median_nearest": features.median_nearest,
    }


def _training_record(recipe: Recipe, training: Training) -> dict[str, Any]:
    return recipe.to_json() | {
        "updates_made": training.updates,
        "best_update": training.best.update,
        "interrupted": training.interrupted,
        "history": [[each.update, round(each.nll, 5), round(each.mean_lambda, 4)] for each in training.history],
    }


def _keep(store: Store, name: str, combiner: Combiner) -> Store:
    with StoreWriter(store.path, store.model, wait=True) as writer:  # what was trained is worth waiting for
        directory = writer.new_directory("combiners", name)
        with storage_errors(store.path):
            combiner.save(directory)
        return writer.commit(combiner=(name, directory))
