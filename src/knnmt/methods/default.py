"""Which combiner is used when none is named."""

import sys
from dataclasses import dataclass
from typing import Any

from knnmt.datastore import Store
from knnmt.errors import MethodError
from knnmt.methods.registry import BASE, method_named, read_config
from knnmt.shell import command

LEAKED = 0.1  # with a larger share of dev pairs in the store, their NLL means nothing


@dataclass(frozen=True)
class Default:
    """The combiner that is used when none is named, the reason, and the combiners that cannot be used."""

    name: str
    why: str
    unusable: tuple[str, ...] = ()


def default_of(store: Store) -> Default:
    """What `knnmt use` chose, or else the fitted combiner with the lowest dev NLL, never one worse than the base model.

    Combiners may have been fitted on different dev pairs, so each is compared with the base model on its own pairs.
    On the same pairs this is the order of their NLL. A combiner whose dev pairs were in the store comes last.
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
    """The gain of a combiner; without a recorded NLL it is minimal, so that every measured gain comes first."""
    method_named(config["method"])
    record = config.get("record")
    try:
        nll, base = float(record["nll"]), float(record["base_nll"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return _Gain(sys.float_info.min, "fitted, without a record of its dev NLL", False)
    words = f"lowest dev NLL of what was fitted: {nll:.3f}, base {base:.3f}"
    leaked = is_leaked(record or {})
    return _Gain(base - nll, words + ("; its dev pairs were in the store" if leaked else ""), leaked)


def is_leaked(record: dict[str, Any]) -> bool:
    """Whether a combiner was fitted on pairs that were in the store. Such a combiner trusts the store too much."""
    return bool(record.get("leaked", 0) > LEAKED * max(record.get("dev_pairs") or 0, 1))


def no_combiner(store: Store, default: Default) -> str:
    """Why there is no combiner to use, and what to do."""
    if store.latest().combiners.keys() > store.combiners.keys():
        return f"{store.path} was opened before something was fitted for it; open it again, with store.latest()."
    why = default.why[:1].upper() + default.why[1:]
    return f"{why} (store {store.path}); run `{command('fit', store.path, 'DEV')}` first."
