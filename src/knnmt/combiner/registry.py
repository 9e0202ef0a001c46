"""The table of methods, and the rule for which one is used when none is named."""

import sys
from dataclasses import dataclass
from typing import Any

from knnmt.combiner.adaptive import Adaptive
from knnmt.combiner.base import Combiner, damaged
from knnmt.combiner.robust import Robust
from knnmt.combiner.vanilla import Vanilla
from knnmt.datastore import Store
from knnmt.errors import MethodError
from knnmt.shell import command

METHODS: dict[str, type[Combiner]] = {each.method: each for each in (Vanilla, Adaptive, Robust)}

BASE = "base"  # the model alone; a reserved name
LEAKED = 0.1  # share of dev pairs found in the store from which on their NLL says nothing


@dataclass(frozen=True)
class Default:
    """The method that is used when none is named, why it is that one, and which combiners could not be considered."""

    name: str
    why: str
    unusable: tuple[str, ...] = ()


def default_of(store: Store) -> Default:
    """What was chosen by hand, else the fitted combiner with the lowest dev NLL, never one worse than the base model.

    Combiners may have been fitted on different dev pairs, so each is compared with the base model on its own: on the
    same pairs that is the order of their NLL. One whose dev pairs were in the store comes after all others.
    """
    if store.manifest.default is not None:
        return Default(store.manifest.default, "chosen with `knnmt use`")
    gains, unusable = {}, []
    for name in sorted(store.combiners):
        try:
            gains[name] = _gain(read_config(store, name))
        except MethodError:
            unusable.append(name)
    if not gains:
        why = "nothing that was fitted can be used" if unusable else "nothing was fitted yet"
        return Default(BASE, why, tuple(unusable))
    better = {name: gain for name, gain in gains.items() if gain.nats > 0}
    if not better:
        why = "nothing that was fitted is better than the model alone on its dev pairs"
        return Default(BASE, why, tuple(unusable))
    best = max(better, key=lambda name: (not better[name].leaked, better[name].nats))
    return Default(best, gains[best].words, tuple(unusable))


@dataclass(frozen=True)
class _Gain:
    """By how many nats a combiner is better than the base model."""

    nats: float
    words: str
    leaked: bool


def _gain(config: dict[str, Any]) -> _Gain:
    """A combiner that nobody measured comes after those that are better than the base model."""
    if config["method"] not in METHODS:
        raise MethodError(f"The method {config['method']} is unknown here.")
    record = config.get("record")
    try:
        nll, base = float(record["nll"]), float(record["base_nll"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return _Gain(sys.float_info.min, "fitted, without a record of its dev NLL", False)
    words = f"lowest dev NLL of what was fitted: {nll:.3f}, base {base:.3f}"
    leaked = is_leaked(record or {})
    return _Gain(base - nll, words + ("; its dev pairs were in the store" if leaked else ""), leaked)


def is_leaked(record: dict[str, Any]) -> bool:
    """Whether a combiner was fitted on pairs that were in the store: it trusts the store too much."""
    return bool(record.get("leaked", 0) > LEAKED * max(record.get("dev_pairs") or 0, 1))


def read_config(store: Store, name: str) -> dict[str, Any]:
    """The config.json of a fitted combiner, as it was when the store was opened."""
    file = store.combiner_configs[name]
    if file.problem is not None:
        raise MethodError(file.problem)
    config = file.fields
    if not isinstance(config.get("method"), str):
        raise MethodError(file.damaged())
    return config


def load_combiner(store: Store, name: str) -> Combiner | None:
    """The fitted combiner of that name; None for the base model."""
    if name == BASE:
        return None
    if name not in store.combiners:
        fitted = ", ".join(sorted(store.combiners)) or "none"
        raise MethodError(
            f"Nothing named {name} was fitted for the store {store.path} (fitted: {fitted}); "
            f"run `{command('fit', store.path, 'DEV', '--method', 'METHOD')}` first."
        )
    directory, config = store.combiners[name], read_config(store, name)
    if config["method"] not in METHODS:
        raise MethodError(f"The combiner {name} is of the method {config['method']}, unknown here; upgrade knnmt.")
    try:
        combiner = METHODS[config["method"]].load(directory, config)
        fitted_to = combiner.record.get("model", store.model.fingerprint)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(directory, error) from error
    if fitted_to != store.model.fingerprint:
        raise MethodError(f"The combiner {name} was fitted to another model than the store {store.path}; fit it again.")
    return combiner
