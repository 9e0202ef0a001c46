"""Training on cached features against the same loop with model and search run at every update.

    python benchmarks/fit.py                                            the bundled model, texts of the tests
    python benchmarks/fit.py --store STORE --dev dev.de dev.en          a store of one's own
    python benchmarks/fit.py … --updates 5000 --slow-updates 20 --json

Both make the same updates of robust kNN-MT from the same sentences, in turns: some cached updates, one uncached. One
thread, CPU seconds, and the cached way's peak memory, model included. The first pass over the dev sentences, which
fills the cache, is counted as part of the cached way.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before any thread pool is made: who waits does not work

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from machine import machine

import knnmt
from knnmt.combiner import Needs
from knnmt.methods import Robust
from knnmt.progress import progress, show_progress
from knnmt.training import ClosedForm, Perturbation, Perturber, Recipe, collect_features
from knnmt.training.trainer import _Loop
from knnmt.workflow.session import Session

ESPRESSO = Path(__file__).parents[1] / "examples/espresso"
K = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--dev", type=Path, nargs="+", default=[ESPRESSO / "dev.de", ESPRESSO / "dev.en"])
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--updates", type=int, default=5000)
    parser.add_argument("--slow-updates", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    knnmt.tune_allocator()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        store = options.store
        if store is None:
            store = Path(scratch) / "espresso"
            knnmt.build(store, [ESPRESSO / "memory.de", ESPRESSO / "memory.en"], model="de-en-small")
        _show(_compare(Session.open(store, options.dev, limit=options.limit), options), options.json)


def _compare(session: Session, options: argparse.Namespace) -> dict[str, Any]:
    cached = _Timer()
    with cached:
        features = collect_features(session.engine, session.searcher, session.pairs, Needs(K, K))
    filled = cached.cpu
    recipe = Recipe(updates=options.updates)
    loop = _Loop(
        Robust(K, features.median_nearest / 10),
        features,
        np.arange(len(features.lengths)),
        recipe,
        _perturber(features.dim, np.random.default_rng(0)),
    )
    uncached = _Uncached(session, recipe, features.median_nearest / 10)
    slow = _Timer()
    share = options.updates // options.slow_updates
    with progress("Comparing", total=options.slow_updates, unit="rounds") as meter:
        for _ in range(options.slow_updates):
            with cached:
                for _ in range(share):
                    loop._update(loop._alpha())
                    loop.training.updates += 1
            if not meter.done:
                after_cached = _peak()
            with slow:
                uncached.update()
            meter.advance(1, units=1)
    of_update = (cached.cpu - filled) / (share * options.slow_updates)
    of_slow = slow.cpu / options.slow_updates
    return {
        "machine": machine(torch.get_num_threads()),
        "entries": session.store.entry_count,
        "dev_sentences": len(features.lengths),
        "dev_tokens": len(features),
        "cache_cpu_seconds": filled,
        "cpu_ms_per_update": {"cached": 1000 * of_update, "model at every update": 1000 * of_slow},
        "peak_bytes": after_cached,
        "whole_fit_cpu_seconds": {
            "cached": filled + options.updates * of_update,
            "model at every update": options.updates * of_slow,
        },
        "ratio": options.updates * of_slow / (filled + options.updates * of_update),
    }


class _Uncached:
    """Every update passes its sentences through the model and searches for them."""

    def __init__(self, session: Session, recipe: Recipe, scale: float) -> None:
        self.session, self.recipe = session, recipe
        self.combiner = Robust(K, scale)
        self.rng = np.random.default_rng(1)

    def update(self) -> None:
        chosen = self.rng.choice(len(self.session.pairs), self.recipe.batch_sentences, replace=False)
        pairs = [self.session.pairs[i] for i in chosen]
        features = collect_features(self.session.engine, self.session.searcher, pairs, Needs(K, K))
        loop = _Loop(self.combiner, features, np.arange(len(pairs)), self.recipe, _perturber(features.dim, self.rng))
        loop._update(loop._alpha())


def _perturber(dim: int, rng: np.random.Generator) -> Perturber:
    how = Perturbation()
    return Perturber(how, ClosedForm(how.sigma, dim, rng))


class _Timer:
    def __init__(self) -> None:
        self.cpu = 0.0

    def __enter__(self) -> None:
        self.start = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.cpu += time.process_time() - self.start


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result, indent=2))
        return
    print(result["machine"])
    print(f"{result['entries']:,} entries; {result['dev_sentences']:,} dev sentences, {result['dev_tokens']:,} tokens")
    print(f"filling the cache: {result['cache_cpu_seconds']:.1f} CPU-s")
    for name, cost in result["cpu_ms_per_update"].items():
        print(f"{name:24} {cost:10.1f} CPU-ms an update, {result['whole_fit_cpu_seconds'][name]:10.1f} CPU-s in all")
    print(f"peak memory of the cached way: {result['peak_bytes'] / 1e6:,.0f} MB")
    print(f"ratio of the whole: {result['ratio']:.1f}")


if __name__ == "__main__":
    with show_progress():
        main()
