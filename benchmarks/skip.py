"""What not searching costs: NLL of target tokens where the model's surest token has more than P, for several P.

    python benchmarks/skip.py STORE dev.fr dev.en [--limit 500] [--method robust] [--json]

The speed of the same settings: python benchmarks/decode.py … --systems base,robust,robust@skip0.99
"""

import argparse
import json
from pathlib import Path

from machine import machine

import knnmt
from knnmt.combiner import Needs
from knnmt.methods import load_combiner
from knnmt.progress import show_progress
from knnmt.training import collect_features
from knnmt.workflow.session import Session

LIMITS = (1.0, 0.999, 0.99, 0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("corpus", type=Path, nargs="+")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--method", default="robust")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    knnmt.tune_allocator()
    session = Session.open(options.store, options.corpus, limit=options.limit)
    combiner = load_combiner(session.store, options.method)
    assert combiner is not None, "base searches for nothing"
    needs = Needs.of_all([combiner.needs, Needs(1, top=1)])
    features = collect_features(session.engine, session.searcher, session.pairs, needs)
    surest = features.observation.log_p_top[:, 0].exp()
    rows = [
        {
            "skip_above": limit,
            "searched": float((surest <= limit).double().mean()),
            "nll": features.skipping(limit).judge(combiner)[0],
        }
        for limit in LIMITS
    ]
    if options.json:
        result = {"machine": machine(), "tokens": len(features), "base_nll": features.base_nll, "rows": rows}
        print(json.dumps(result, indent=2))
        return
    print(
        f"{len(features):,} tokens, base NLL {features.base_nll:.4f}\n\n| skip above | searched | NLL |\n|---|---|---|"
    )
    for row in rows:
        limit = "never" if row["skip_above"] == 1 else f"{row['skip_above']:g}"
        print(f"| {limit} | {100 * row['searched']:.1f}% | {row['nll']:.4f} |")


if __name__ == "__main__":
    with show_progress():
        main()
