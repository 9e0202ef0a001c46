"""Choose the combiner that is used when none is named, and remove combiners."""

from pathlib import Path

from knnmt.datastore import Store, StoreWriter
from knnmt.errors import MethodError
from knnmt.methods import BASE, load_combiner
from knnmt.options import AUTO


def use(store: Store | str | Path, name: str) -> Store:
    """Choose the combiner, or `base`, that is used when none is named; `auto` is the best fitted one again.

    Example:
        knnmt.use("memory", "adaptive")
    """
    store = Store.open(store)
    with StoreWriter(store.path, store.model, wait=True) as writer:
        if name not in (BASE, AUTO):
            _check(writer.opened, name)
            load_combiner(writer.opened, name)  # raises if it cannot be used
        return writer.choose(None if name == AUTO else name)


def forget(store: Store | str | Path, name: str) -> Store:
    """Remove a fitted combiner.

    Example:
        knnmt.forget("memory", "my-ablation")
    """
    store = Store.open(store)
    with StoreWriter(store.path, store.model, wait=True) as writer:
        _check(writer.opened, name)
        return writer.forget(name)


def _check(store: Store, name: str) -> None:
    if name not in store.combiners:
        fitted = ", ".join(sorted(store.combiners)) or "none"
        raise MethodError(f"The store {store.path} has no combiner {name} (it has {fitted}).")
