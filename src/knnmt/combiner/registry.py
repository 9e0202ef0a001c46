"""The table of methods, and the rule for which one is used when none is named."""

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from knnmt.combiner.adaptive import Adaptive
from knnmt.combiner.base import Combiner, damaged, read_config
from knnmt.combiner.robust import Robust
from knnmt.combiner.vanilla import Vanilla
from knnmt.datastore import Store
from knnmt.errors import MethodError
from knnmt.shell import command

METHODS: dict[str, type[Combiner]] = {each.method: each for each in (Vanilla, Adaptive, Robust)}

BASE = "base"  # the model alone; a reserved name


@dataclass(frozen=True)
class Default:
    """The method that is used when none is named, and why it is that one."""

    name: str
    why: str


def default_of(store: Store) -> Default:
    """What was chosen by hand, else the fitted combiner with the lowest dev NLL, never one worse than the base model.

    Combiners may have been fitted on different dev pairs, so each is compared with the base model on its own: on the
    same pairs that is the order of their NLL. One that cannot be read, or of a method unknown here, is passed over.
    """
    if store.manifest.default is not None:
        return Default(store.manifest.default, "chosen with `knnmt use`")
    gains = {}
    for name, directory in sorted(store.combiners.items()):
        with suppress(MethodError):
            config = read_config(directory)
            if config["method"] in METHODS:
                gains[name] = _gain(config)
    if not gains:
        return Default(BASE, "nothing was fitted yet")
    best = max(gains, key=lambda name: gains[name].nats)
    if gains[best].nats <= 0:
        return Default(BASE, "nothing that was fitted is better than the model alone on its dev pairs")
    return Default(best, gains[best].words)


@dataclass(frozen=True)
class _Gain:
    nats: float
    words: str


def _gain(config: dict[str, Any]) -> _Gain:
    """By how much a combiner is better than the base model; a combiner that nobody measured comes last."""
    record = config.get("record")
    try:
        nll, base = float(record["nll"]), float(record["base_nll"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return _Gain(sys.float_info.min, "fitted, without a record of its dev NLL")
    return _Gain(base - nll, f"lowest dev NLL of what was fitted: {nll:.3f}, base {base:.3f}")


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
    directory = store.combiners[name]
    config = read_config(directory)
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
