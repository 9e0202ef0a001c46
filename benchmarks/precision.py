"""What int8 costs: how far it moves states, how many of the exact neighbours they still find, and NLL.

    python benchmarks/precision.py STORE test.fr test.en [--limit 100] [--method robust] [--json]

Teacher-forced, so that every precision sees the same positions. `neighbours`: of the 8 that an exact search for the
float32 state finds, the share that the store's own search for the state in question finds. `same`: positions whose
likeliest token by the model alone is that of float32. BLEU: `knnmt evaluate STORE … --precision int8`.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from machine import machine

import knnmt
from knnmt.binding import load_model
from knnmt.corpus import Corpus, Pair
from knnmt.datastore import Store
from knnmt.methods import load_combiner
from knnmt.model import Engine, Purpose, choose_engine
from knnmt.progress import show_progress
from knnmt.search import Searcher
from knnmt.search.exact import nearest
from knnmt.search.keys import key_blocks
from knnmt.training import collect_features

K = 8


@torch.inference_mode()
def states(engine: Engine, pairs: list[Pair]) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and the model's likeliest tokens at every position."""
    sources = engine.model.codec.encode_sources([pair.source for pair in pairs])
    targets = engine.model.codec.encode_targets([pair.target for pair in pairs])
    keys, best = [], []
    for batch in engine.batches(sources, targets):
        keys.append(batch.keys)
        parts = torch.split(batch.hidden, engine.chunk_rows)
        best += [engine.project(part).values.argmax(1) for part in parts]
    return torch.cat(keys), torch.cat(best)


def share(found: np.ndarray, exact: np.ndarray) -> float:
    return float((found[:, :, None] == exact[:, None, :]).any(2).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("corpus", type=Path, nargs="+")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--method", default="robust")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    knnmt.tune_allocator()
    store = Store.open(options.store)
    model = load_model(store, "cpu")
    combiner = load_combiner(store, options.method)
    assert combiner is not None, "base searches for nothing"
    searcher = Searcher(store)
    pairs = list(Corpus(options.corpus, languages=model.codec.languages, limit=options.limit))
    rows = []
    for precision in ("float32", "int8"):
        engine = choose_engine(model, "onnx", precision, Purpose.TARGETS)
        keys, best = states(engine, pairs)
        if precision == "float32":
            exact_keys, exact_best = keys, best
            exact = nearest(key_blocks(searcher.entries, 1 << 15), keys.numpy(), K).ids
        features = collect_features(engine, searcher, pairs, combiner.needs)
        rows.append(
            {
                "precision": precision,
                "shift": float(((keys - exact_keys) ** 2).sum(1).median()),
                "same": float((best == exact_best).double().mean()),
                "neighbours": share(searcher.search(keys.numpy(), K).ids, exact),
                "base_nll": features.base_nll,
                "nll": features.judge(combiner)[0],
            }
        )
    result = {
        "machine": machine(),
        "store_precision": store.model.precision,
        "entries": store.entry_count,
        "tokens": len(features),
        "median_nearest": features.median_nearest,
        "rows": rows,
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{store.entry_count:,} entries made in {store.model.precision}, {len(features):,} tokens")
    print(f"median squared distance to the nearest {features.median_nearest:,.1f}\n")
    print("| precision | shift | same | neighbours | base NLL | NLL |\n|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['precision']} | {row['shift']:.2f} | {100 * row['same']:.1f}% | {100 * row['neighbours']:.1f}% "
            f"| {row['base_nll']:.4f} | {row['nll']:.4f} |"
        )


if __name__ == "__main__":
    with show_progress():
        main()
