"""How surely a model's likelihood tells a parallel corpus from one in the wrong order or one that is not parallel.

    python benchmarks/pairing.py --model MODEL train.de train.en [more.de more.en ...]

For each corpus, the deviations that `knnmt build` looks at, over several samples: the least and the greatest of each,
and how many samples are clear by their first few pairs.
"""

import argparse
import random
import time

from machine import machine

from knnmt.corpus import Corpus, Pair
from knnmt.corpus.sample import SIZE
from knnmt.model import TranslationModel, make_runner
from knnmt.workflow.pairing import _CLEAR, _FEW, Evidence, evidence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="+", metavar="FILE", help="source and target files, one after the other")
    parser.add_argument("--model", required=True)
    parser.add_argument("--samples", type=int, default=20)
    options = parser.parse_args()
    print(machine())
    model = TranslationModel.load(options.model)
    model = model.run_by(make_runner(model, precision="int8", work="passes"))
    print("| corpus | order | order, swapped | together | together, shuffled | clear by 8 pairs | CPU-seconds for 8 |")
    print("|---|---|---|---|---|---|---|")
    for source, target in zip(options.corpus[::2], options.corpus[1::2], strict=True):
        pairs = list(Corpus([source, target], languages=model.codec.languages))
        _row(model, source, [random.Random(seed).sample(pairs, SIZE) for seed in range(options.samples)])


def _row(model: TranslationModel, name: str, samples: list[list[Pair]]) -> None:
    started = time.process_time()
    few = [evidence(model, sample[:_FEW]) for sample in samples]
    seconds = (time.process_time() - started) / len(samples)
    clear = sum(min(each.order, each.together) >= _CLEAR for each in few)
    right = [evidence(model, sample) for sample in samples]
    swapped = [evidence(model, [Pair(pair.target, pair.source, "", 1) for pair in sample]) for sample in samples]
    shuffled = [evidence(model, _unrelated(sample)) for sample in samples]
    cells = [_range(right, "order"), _range(swapped, "order"), _range(right, "together"), _range(shuffled, "together")]
    print(f"| {name} | {' | '.join(cells)} | {clear} of {len(samples)} | {seconds:.2f} |", flush=True)


def _unrelated(sample: list[Pair]) -> list[Pair]:
    """Each source with a target that is neither its own nor, when `evidence` shifts the sources, becomes so."""
    half = len(sample) // 2
    targets = [pair.target for pair in sample[half:] + sample[:half]]
    return [Pair(pair.source, target, "", 1) for pair, target in zip(sample, targets, strict=True)]


def _range(found: list[Evidence], which: str) -> str:
    values = [getattr(each, which) for each in found]
    return f"{min(values):.1f} to {max(values):.1f}"


main()
