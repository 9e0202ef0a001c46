"""Fit a method to a store, on dev pairs or on the store's own sentences, and save the combiner in the store.

There are three steps, and each can be used alone: `Session.features` collects what the method needs, `fit_method` fits
a combiner, `keep` saves it in the store.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from knnmt.combiner import Combiner, Needs
from knnmt.datastore import Store, StoreWriter, storage_errors
from knnmt.datastore.manifest import check_combiner_name
from knnmt.decoding import Settings
from knnmt.errors import MethodError, StoreBusyError
from knnmt.methods import (
    BASE,
    Fitted,
    Fitting,
    Method,
    combiner_of_method,
    is_leaked,
    method_with,
    usable_combiner,
)
from knnmt.model import TranslationModel
from knnmt.options import AUTO
from knnmt.training import Features, check_projectable
from knnmt.workflow.length_penalty import with_tuned_length_penalty
from knnmt.workflow.session import SENTENCES, Session

# Names that no combiner can have: other keys in an evaluation's JSON, and what `knnmt use` takes for no choice.
_TAKEN = (BASE, "baseline", "bleu", "chrf", AUTO)


@dataclass(frozen=True)
class FitReport:
    """The result of fitting.

    Attributes:
        store: the store after fitting
        name: the combiner's name in the store
        kept: whether it was saved in the store; False if the combiner that it would replace is better
        previous_nll: NLL of the dev tokens with the previous combiner of that name, on the present store
        fitted: the combiner, and what its method reports
        nll, base_nll: NLL of the dev tokens, with the combiner and with the model alone
        gold_in_k: share of dev tokens found among the neighbours
        median_nearest: median squared distance to the nearest neighbour
        self_trained: whether it was fitted on the store's own sentences, without dev pairs
        leaked: dev sentences that are in the store
        skipped: dev sentences left out because they are too long for the model
    """

    store: Store
    name: str
    kept: bool
    previous_nll: float | None
    fitted: Fitted
    nll: float
    base_nll: float
    mean_lambda: float
    gold_in_k: float
    median_nearest: float
    self_trained: bool
    leaked: int
    skipped: int

    @property
    def combiner(self) -> Combiner:
        return self.fitted.combiner

    def to_json(self) -> dict[str, Any]:
        """A stable form for programs."""
        return {
            "name": self.name,
            "kept": self.kept,
            "previous_nll": self.previous_nll,
            "method": self.combiner.method,
            **self.combiner.options(),
            "nll": self.nll,
            "base_nll": self.base_nll,
            "mean_lambda": self.mean_lambda,
            "gold_in_k": self.gold_in_k,
            "median_nearest": self.median_nearest,
            "self_trained": self.self_trained,
            "leaked": self.leaked,
            "skipped": self.skipped,
            **self.fitted.record,
            **self.fitted.findings,
        }


def fit(
    store: Store | str | Path,
    corpus: Sequence[str | Path] | str | Path = (),
    method: str | Method = "robust",
    *,
    name: str | None = None,
    sentences: int = SENTENCES,
    limit: int | None = None,
    settings: Settings | None = None,
    force: bool = False,
    tune_length_penalty: bool = False,
    model: TranslationModel | str | None = None,
    device: str = "auto",
    **options: Any,
) -> FitReport:
    """Fit a method and save the combiner in the store under `name`.

    A previous combiner of that name is not replaced if it is better on the same dev pairs.

    Args:
        store: a store or its directory
        corpus: dev files, which must not be in the store; none: sentences drawn from the store, and each search
            ignores stored sentences with the same text
        method: the name of a method (`vanilla`, `adaptive`, `robust`, or one of another package), or a method
        name: the combiner's name, to keep several of a method; by default the method's name
        sentences: how many sentences are drawn from the store if there are no dev files
        limit: use only the first `limit` lines
        force: also replace a better combiner, and do not check that the dev pairs are in the model's languages
        tune_length_penalty: find the length penalty with the best BLEU on dev, and keep it with the combiner
        model: the store's model, or its new path if it was moved
        options: options of the method: `k`, `without`, `updates`, …; `knnmt fit --help` lists all

    Example:
        knnmt.fit("memory", ["dev.de", "dev.en"])
        knnmt.fit("memory", method="adaptive", k=16, name="adaptive-16")
    """
    if isinstance(method, str):
        method = method_with(method, options)
    elif options:
        raise MethodError(f"The options {', '.join(options)} belong to the method that was given; set them there.")
    name = name or method.name
    if name in _TAKEN:
        raise MethodError(f"The name {name} means something else to other commands; choose another.")
    check_combiner_name(name)
    store = Store.open(store)
    check_method(method, store)
    if not corpus and (sentences < 1 or limit is not None):
        raise MethodError("Without dev files, say with --sentences (1 or more) how many of the store's are drawn.")
    if not corpus and tune_length_penalty:
        raise MethodError(
            "The length penalty is tuned on dev pairs: stored sentences would find themselves; give some."
        )
    with suppress(StoreBusyError), StoreWriter(store.path, store.model):
        pass  # report a store that is not writable now, not after the work
    session = Session.open(
        store, corpus, limit=limit, sentences=sentences, model=model, device=device, settings=settings, force=force
    )
    fitted = fit_method(method, session, settings)
    if tune_length_penalty:
        fitted = with_tuned_length_penalty(fitted, session, settings)
    combiner, features = fitted.combiner, session.features(fitted.combiner.needs, method.seed)
    previous = usable_combiner(store, name)
    previous_nll = None if previous is None else session.features(previous.needs, method.seed).judge(previous)[0]
    kept = force or previous is None or previous_nll is None or _may_replace(previous, previous_nll, combiner)
    return FitReport(
        store=keep(session.store, name, combiner) if kept else store,
        name=name,
        kept=kept,
        previous_nll=previous_nll,
        fitted=fitted,
        nll=combiner.record["nll"],
        base_nll=features.base_nll,
        mean_lambda=features.judge(combiner)[1],
        gold_in_k=features.gold_in_k(combiner.k),
        median_nearest=features.median_nearest,
        self_trained=not corpus,
        leaked=combiner.record["leaked"],
        skipped=features.skipped,
    )


def check_method(method: Method, store: Store) -> Needs:
    """What a method needs. Raises `MethodError` if the store cannot provide it."""
    needs = method.needs(store.entry_count)
    if needs.k > store.entry_count:
        held = f"the store {store.path} holds only {store.entry_count} entries"
        raise MethodError(f"K is {needs.k}, but {held}; lower --k.")
    for flag, asked in (("--k", needs.k), ("--top", needs.top)):
        if asked > store.model.vocab_size:
            raise MethodError(f"{flag} is {asked}, but the model knows {store.model.vocab_size} tokens; lower it.")
    if method.reads_keys:
        check_projectable(store.model.key_layer)
    return needs


def fit_method(method: Method, session: Session, settings: Settings | None = None) -> Fitted:
    """Fit a method on a session's pairs. The combiner gets a record of the fit; nothing is written.

    Args:
        settings: settings of the beam search, for methods that compare translations
    """
    store = session.store
    needs = check_method(method, store)
    features = session.features(needs, method.seed, keep_queries=method.reads_keys)
    if not features.observation.exists.any():
        raise MethodError(f"No other sentence of {store.path} is left to learn from; give dev pairs.")

    fitted = method.fit(
        Fitting(
            features=features,
            store=store,
            engine=session.engine,
            # the store's own sentences cannot be decoded: each would find itself
            bleu=partial(session.bleu, settings or Settings()) if session.pairs else None,
            of_store=lambda wanted: combiner_of_method(store, wanted),
            stored=(lambda count: session.stored(count, needs, method.seed)) if session.pairs else None,
            again=lambda count: session.found_again(count, needs, method.seed),
        )
    )
    fitted.combiner.record = _record(session, features, fitted.combiner) | fitted.record
    return fitted


def keep(store: Store, name: str, combiner: Combiner) -> Store:
    """Save a combiner in a store, in place of a previous one of that name. Returns the new state of the store."""
    with StoreWriter(store.path, store.model, wait=True) as writer:  # waiting is better than losing a trained combiner
        directory = writer.new_directory("combiners", name)
        with storage_errors(store.path):
            combiner.save(directory)
        return writer.commit(combiner=(name, directory))


def _may_replace(previous: Combiner, previous_nll: float, combiner: Combiner) -> bool:
    """Whether the new one is better. A leaked one, which trusts the store too much, replaces only a leaked one."""
    honest = is_leaked(previous.record) or not is_leaked(combiner.record)
    return honest and bool(combiner.record["nll"] <= previous_nll)


def _record(session: Session, features: Features, combiner: Combiner) -> dict[str, Any]:
    summary = session.summary
    return {
        "model": session.store.model.fingerprint,
        "store": session.store.fingerprint,
        "dev": summary.digest if summary else None,
        "dev_pairs": summary.pairs if summary else None,
        "dev_tokens": len(features),
        "sentences": len(features.lengths),
        "leaked": sum(session.in_store()),
        "nll": features.judge(combiner)[0],
        "base_nll": features.base_nll,
        "gold_in_k": features.gold_in_k(combiner.k),
        "median_nearest": features.median_nearest,
    }
