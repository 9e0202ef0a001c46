"""Describe the content of a store."""

from pathlib import Path
from typing import Any

from knnmt.datastore import Store
from knnmt.errors import KnnmtError
from knnmt.methods import default_of, load_combiner
from knnmt.search import describe_index


def info(store: Store | str | Path) -> dict[str, Any]:
    """Entries, sentences, bytes by part, model, search, views and combiners, in a stable form for programs."""
    store = Store.open(store)
    default = default_of(store)
    return {
        "path": str(store.path),
        "entries": store.entry_count,
        "pairs": store.entry_count,  # the earlier name
        "sentences": store.sentence_count,
        "segments": len(store.segments),
        "dim": store.dim,
        "fingerprint": store.fingerprint,
        "model": store.model.to_json(),
        "bytes": store.sizes(),
        "search": _search(store),
        "views": [_view(store, name) for name in sorted(store.manifest.views)],
        "default": {"name": default.name, "why": default.why, "unusable": list(default.unusable)},
        "combiners": [_combiner(store, name) for name in sorted(store.combiners)],
        "unfinished": [
            {"sentences": each.sentences, "entries": each.rows, "pairs": each.rows} | each.state
            for each in store.unfinished()
        ],
    }


def _search(store: Store) -> dict[str, Any]:
    """The index; a missing index is no error, so that the rest of the store can be described."""
    try:
        return describe_index(store)
    except KnnmtError as error:
        return {"engine": None, "index": None, "recall": None, "problems": [str(error)]}


def _view(store: Store, name: str) -> dict[str, Any]:
    """A view; if it is damaged, why. The bytes are those of its mask and its index."""
    record = store.manifest.views[name]
    parts = [record.mask, *([] if record.index is None else [store.manifest.indexes[record.index]])]
    size = sum(part.bytes for part in parts)
    try:
        view = store.view(name)
    except KnnmtError as error:
        unknown = dict.fromkeys(("entries", "sentences", "index", "recall"))
        return {"name": name, **unknown, "bytes": size, "problems": [str(error)]}
    search = _search(view)
    return {
        "name": name,
        "entries": view.entry_count,
        "sentences": view.sentence_count,
        "index": search["index"],
        "recall": search["recall"],
        "bytes": size,
        "problems": search["problems"],
    }


def _combiner(store: Store, name: str) -> dict[str, Any]:
    """A combiner; if it cannot be used here, also why."""
    try:
        combiner = load_combiner(store, name)
    except KnnmtError as error:
        return {"name": name, "problem": str(error)}
    assert combiner is not None  # no fitted combiner is named `base`
    return {"name": name, "method": combiner.method, **combiner.options(), "record": combiner.record}
