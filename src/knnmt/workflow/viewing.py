"""Make a view of a store: some of its entries, searched as if there were no others."""

from pathlib import Path

from knnmt.datastore import Entries, Store, StoreWriter
from knnmt.datastore.cuts import Cut
from knnmt.datastore.segment import check_sound
from knnmt.search import build_index, check_kind, needs_index


def make_view(store: Store | str | Path, name: str, kept: Cut | Entries, index: str = "auto") -> Store:
    """Make a view with an index of its own, in place of an earlier view of that name, and open it. No key is copied.

    Raises `StoreError` if nothing would be kept, if a segment is damaged (one that is open is read only once for all
    views that are made of it), or if an open store has segments that a later build has replaced.

    Args:
        store: a store or its directory; of a view, the entries of the view are cut
        kept: the entries that stay, or what is left out
        index: kind of index; `auto` as in `build`

    Example:
        unsure = knnmt.workflow.make_view("memory", "unsure", ConfidenceCut(0.0, 0.6))
    """
    check_kind(index)
    opened = Store.open(store)
    with StoreWriter(opened.path, opened.model, wait=True) as writer:
        # A store that the caller has open is cut as it was then; a directory is read when nobody writes to it.
        source = opened if isinstance(store, Store) else writer.opened
        entries = kept.kept(source.entries) if isinstance(kept, Cut) else kept
        writer.check_view(name, entries)
        check_sound(entries.segments)
        directory = None
        if needs_index(entries, (), index):
            directory = writer.new_directory("index")
            build_index(entries, directory, index)
        return writer.commit_view(name, entries, directory).view(name)
