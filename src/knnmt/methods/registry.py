"""The table of methods: those of this package, of other packages, and those that a program registers."""

import warnings
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from knnmt.combiner import Combiner
from knnmt.combiner.base import damaged
from knnmt.datastore import ConfigFile, Store
from knnmt.errors import MethodError
from knnmt.methods.adaptive import AdaptiveMethod
from knnmt.methods.evidence import EvidenceMethod
from knnmt.methods.method import Method
from knnmt.methods.robust import RobustMethod
from knnmt.methods.vanilla import VanillaMethod
from knnmt.options import options_of
from knnmt.shell import command

GROUP = "knnmt.methods"  # the entry point group with which other packages provide methods
BASE = "base"  # the model alone; a reserved name

_METHODS: dict[str, type[Method]] = {
    each.name: each for each in (VanillaMethod, AdaptiveMethod, RobustMethod, EvidenceMethod)
}


def register(method: type[Method]) -> type[Method]:
    """Register a method in this process; also usable as a decorator. A class that is defined again replaces itself.

    To register methods in every process, a package uses the entry point group `knnmt.methods` instead.
    """
    known = _METHODS.get(method.name, method)
    same = (known.__module__, known.__qualname__) == (method.__module__, method.__qualname__)
    if method.name == BASE or not same:
        raise MethodError(f"There is a method {method.name} already; give yours another name.")
    _METHODS[method.name] = method
    return method


def methods() -> dict[str, type[Method]]:
    """All methods by name. Methods of other packages cannot replace registered ones."""
    return {**_METHODS, **{name: each for name, each in _from_other_packages().items() if name not in _METHODS}}


def method_named(name: str) -> type[Method]:
    """The method of that name. Raises `MethodError` if there is none."""
    known = methods()
    if name not in known:
        raise MethodError(f"There is no method {name}; choose one of {', '.join(known)}.")
    return known[name]


def method_with(name: str, options: dict[str, Any]) -> Method:
    """The method of that name with these options. Raises `MethodError` for unknown options."""
    method = method_named(name)
    declared = options_of(method)
    for given in options:
        if given not in declared:
            others = [other for other, each in methods().items() if given in options_of(each)]
            whose = f"is of the method{'s' * (len(others) > 1)} {' and '.join(others)}" if others else "does not exist"
            has = ", ".join(option.flag for option in declared.values())
            flag = f"--{given.replace('_', '-')}"
            raise MethodError(f"{flag} {whose} and says nothing to {name}; leave it out ({name} has {has}).")
    return method(**options)


@cache
def _from_other_packages() -> dict[str, type[Method]]:
    found: dict[str, type[Method]] = {}
    for entry in entry_points(group=GROUP):
        try:
            method = entry.load()
            if not issubclass(method, Method):
                raise TypeError(f"{entry.value} is not a subclass of knnmt.methods.Method")
            found[method.name] = method
        except Exception as error:  # no error of another package may disable the other methods
            warnings.warn(f"The method {entry.name} cannot be loaded from {entry.value}: {error}.", stacklevel=3)
    return found


def read_config(store: Store, name: str) -> dict[str, Any]:
    """The config.json of a fitted combiner, as it was when the store was opened."""
    file = store.combiner_configs[name]
    if file.problem is not None:
        raise MethodError(file.problem)
    config = file.fields
    if not isinstance(config.get("method"), str):
        raise MethodError(file.damaged())
    return config


def load_combiner(store: Store | str | Path, name: str) -> Combiner | None:
    """The fitted combiner of that name; None for the base model."""
    if name == BASE:
        return None
    store = Store.open(store)
    if name not in store.combiners:
        fitted = ", ".join(sorted(store.combiners)) or "none"
        raise MethodError(
            f"Nothing named {name} was fitted for the store {store.path} (fitted: {fitted}); "
            f"run `{command('fit', store.path, 'DEV', '--method', 'METHOD')}` first."
        )
    combiner = _load(store.combiners[name], name, read_config(store, name))
    if combiner.record.get("model", store.model.fingerprint) != store.model.fingerprint:
        raise MethodError(f"The combiner {name} was fitted to another model than the store {store.path}; fit it again.")
    return combiner


def read_combiner(directory: Path) -> Combiner:
    """A combiner from the directory that it was saved in, outside of a store."""
    file = ConfigFile.read(directory, "fit it again")
    if file.problem is not None:
        raise MethodError(file.problem)
    return _load(directory, directory.name, dict(file.fields))


def _load(directory: Path, name: str, config: dict[str, Any]) -> Combiner:
    known, method = methods(), config.get("method")
    if not isinstance(method, str):
        raise damaged(directory)
    if method not in known:
        raise MethodError(
            f"The combiner {name} is of the method {method}, unknown here; upgrade knnmt, or install "
            "the package that has the method."
        )
    try:
        combiner = known[method].combiner.load(directory, config)
        combiner.record.get("model")
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(directory, error) from error
    return combiner


def usable_combiner(store: Store, name: str) -> Combiner | None:
    """The fitted combiner of that name; None if there is none or it cannot be used."""
    try:
        return load_combiner(store, name)
    except MethodError:
        return None


def combiner_of_method(store: Store, method: str) -> Combiner | None:
    """A usable combiner of a method, preferably the one with the method's own name; None if there is none."""
    for name in sorted(store.combiners, key=lambda name: (name != method, name)):
        combiner = usable_combiner(store, name)
        if combiner is not None and combiner.method == method:
            return combiner
    return None
