"""Make a view of a store: some of its entries, searched as if there were no others."""

from pathlib import Path

from knnmt.datastore import Entries, Store, StoreWriter
from knnmt.datastore.cuts import Cut
from knnmt.search import build_index, check_kind, needs_index


def make_view(store: Store | str | Path, name: str, kept: Cut | Entries, index: str = "auto") -> Store:
    """Make a view with an index of its own, in place of an earlier view of that name, and open it. No key is copied.

    Args:
        store: a store or its directory
        kept: the entries that stay, or what is left out
        index: kind of index; `auto` as in `build`

    Example:
        unsure = knnmt.workflow.make_view("memory", "unsure", ConfidenceCut(0.0, 0.6))
    """
    check_kind(index)
    store = Store.open(store)
    entries = kept.kept(store.entries) if isinstance(kept, Cut) else kept
    with StoreWriter(store.path, store.model, wait=True) as writer:
        directory = None
        if len(entries) and needs_index(entries, (), index):
            directory = writer.new_directory("index")
            build_index(entries, directory, index)
        return writer.commit_view(name, entries, directory).view(name)
