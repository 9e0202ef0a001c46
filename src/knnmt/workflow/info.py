"""What a store holds."""

from pathlib import Path
from typing import Any

from knnmt.combiner import load_combiner
from knnmt.datastore import Store
from knnmt.search import describe_index


def info(store: Store | str | Path) -> dict[str, Any]:
    """Pairs, sentences, bytes by part, model, search and combiners, in the form that programs rely on."""
    store = Store.open(store)
    combiners = []
    for name in sorted(store.combiners):
        combiner = load_combiner(store, name)
        assert combiner is not None  # `base` is no fitted combiner's name
        combiners.append({"name": name, "method": combiner.method, **combiner.options(), "record": combiner.record})
    return {
        "path": str(store.path),
        "pairs": store.pairs,
        "sentences": store.sentences,
        "segments": len(store.segments),
        "dim": store.dim,
        "fingerprint": store.fingerprint,
        "model": store.model.to_json(),
        "bytes": store.sizes(),
        "search": describe_index(store),
        "combiners": combiners,
    }
