"""Trained methods with several seeds on the same cached features: mean and deviation of the dev and test loss.

    python benchmarks/seeds.py STORE dev.fr dev.en --limit 600
    python benchmarks/seeds.py STORE dev.fr dev.en --test test.fr test.en --test-limit 250
    python benchmarks/seeds.py STORE dev.fr dev.en --variants adaptive,robust,robust-wp,robust-dc,robust-pseudo-pairs
    python benchmarks/seeds.py STORE dev.fr dev.en --variants robust,evidence,evidence-source --k 32
    python benchmarks/seeds.py STORE dev.fr dev.en --self-trained 2000     # trained on the store, judged on dev

A variant is a method, or robust or evidence without a part of it. Model and search run once, whatever is trained.
"""

import argparse
import json
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import knnmt
from knnmt.combiner import Needs
from knnmt.corpus import Corpus, Pair
from knnmt.methods import Fitting, combiner_of_method, method_with
from knnmt.progress import show_progress
from knnmt.training import Features, collect_features, collect_stored
from knnmt.workflow.session import Session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("corpus", type=Path, nargs="+")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--test", type=Path, nargs="+")
    parser.add_argument("--test-limit", type=int)
    parser.add_argument("--self-trained", type=int, metavar="SENTENCES")
    parser.add_argument("--variants", default="adaptive,robust")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--beta", type=float, default=1000.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    knnmt.tune_allocator()
    session = Session.open(options.store, options.corpus, limit=options.limit)
    asked = (method_with(name.partition("-")[0], {"k": options.k}) for name in options.variants.split(","))
    needs = Needs.of_all(method.needs(session.store.entry_count) for method in asked)
    dev = _features(session, session.pairs, needs)
    judged = {"dev": dev}
    if options.test:
        pairs = list(Corpus(options.test, limit=options.test_limit))
        judged["test"] = _features(session, pairs, needs)
    train_on = dev
    if options.self_trained:
        train_on = collect_stored(session.engine, session.searcher, options.self_trained, needs)
    result: dict[str, dict[str, Any]] = {"base": {name: features.base_nll for name, features in judged.items()}}
    for variant in options.variants.split(","):
        result[variant] = _variant(session, train_on, judged, needs, variant, options)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{'':32}" + "".join(f"{name + ' NLL':>20}{'mean λ':>10}" for name in judged))
    print(f"{'base':32}" + "".join(f"{result['base'][name]:20.4f}{'':10}" for name in judged))
    for variant in options.variants.split(","):
        cells = [result[variant][name] for name in judged]
        print(
            f"{variant:32}"
            + "".join(f"{c['mean']:11.4f} ± {c['deviation']:.4f}{c['mean_lambda']:10.3f}" for c in cells)
        )


def _features(session: Session, pairs: list[Pair], needs: Needs) -> Features:
    return collect_features(session.engine, session.searcher, pairs, needs)


def _variant(
    session: Session,
    train_on: Features,
    judged: dict[str, Features],
    needs: Needs,
    variant: str,
    options: argparse.Namespace,
) -> dict[str, dict[str, Any]]:
    name, _, part = variant.partition("-")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in judged}
    for seed in map(int, options.seeds.split(",")):
        given = {"k": options.k, "seed": seed} | ({"beta": options.beta} if name == "robust" else {})
        method = method_with(name, given | ({"without": part} if part else {}))
        of_store = partial(combiner_of_method, session.store)
        stored, again = (partial(each, needs=needs, seed=seed) for each in (session.stored, session.found_again))
        first = None if options.self_trained else stored
        combiner = method.fit(Fitting(train_on, session.store, session.engine, None, of_store, first, again)).combiner
        for split, features in judged.items():
            found[split].append(features.judge(combiner))
    return {
        name: {
            "mean": statistics.mean(nll for nll, _ in runs),
            "deviation": statistics.stdev([nll for nll, _ in runs]) if len(runs) > 1 else 0.0,
            "mean_lambda": statistics.mean(lam for _, lam in runs),
            "nll": [nll for nll, _ in runs],
        }
        for name, runs in found.items()
    }


if __name__ == "__main__":
    with show_progress():
        main()
