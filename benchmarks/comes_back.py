"""How many stored sentences come back word for word when they are translated again.

    python benchmarks/comes_back.py STORE --methods robust,evidence --sentences 200

Sentences are drawn from those whose source has one translation in the store, and which translate as one piece. A
translation counts as the stored one if it is the same text, or the same as far as the tokenizer can write it.
"""

import argparse
import json

import numpy as np

import knnmt
from knnmt.binding import load_model
from knnmt.datastore import Store, StoredSentences
from knnmt.decoding import Settings, Translator
from knnmt.progress import show_progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--methods", default="robust,evidence")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--model", help="the model, if it was moved")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--length-penalty", type=float)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N sentences that did not come back")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    knnmt.tune_allocator()
    store = Store.open(options.store)
    model = load_model(store, "auto", options.model)
    settings = Settings(length_penalty=options.length_penalty, split=False)
    pairs = StoredSentences(store).pairs(_drawn(store, options.sentences, options.seed))
    written = model.codec.decode([row[:-1] for row in model.codec.encode_targets([pair.target for pair in pairs])])
    result = {}
    for method in options.methods.split(","):
        translator = Translator.open(store, method, settings=settings, model=model)
        with show_progress():
            found = list(translator.translate([pair.source for pair in pairs]))
        back = [text in (pair.target, same) for text, pair, same in zip(found, pairs, written, strict=True)]
        result[method] = {"came_back": sum(back), "sentences": len(pairs), "seed": options.seed}
        result[method]["signature"] = translator.signature
        if not options.json:
            print(f"{method:12} {sum(back):5,} of {len(pairs):,} came back ({sum(back) / len(pairs):.1%})")
            lost = [(pair, text) for pair, text, came in zip(pairs, found, back, strict=True) if not came]
            for pair, text in lost[: options.show]:
                print(f"    {pair.source}\n  - {pair.target}\n  + {text}")
    if options.json:
        print(json.dumps(result, indent=2))


def _drawn(store: Store, count: int, seed: int) -> np.ndarray:
    """Numbers of stored sentences whose source occurs with one target only."""
    stored = StoredSentences(store)
    sources, pairs = stored.hashes("source"), stored.hashes("pair")
    first = np.unique(pairs, return_index=True)[1]  # each pair once
    _, inverse, times = np.unique(sources[first], return_inverse=True, return_counts=True)
    single = first[times[inverse] == 1]
    return np.sort(np.random.default_rng(seed).permutation(single)[:count])


if __name__ == "__main__":
    main()
