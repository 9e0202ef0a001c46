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
from knnmt.corpus.sample import RUN, RUNS
from knnmt.model import Engine, Purpose, TranslationModel, choose_engine
from knnmt.workflow.pairing import _CLEAR, _FEW, Evidence, evidence

COLUMNS = [
    "corpus",
    "order",
    "order, swapped",
    "together",
    "together, shuffled",
    "together, slipped",
    "clear by 8 pairs",
    "CPU-seconds for 8",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="+", metavar="FILE", help="source and target files, one after the other")
    parser.add_argument("--model", required=True)
    parser.add_argument("--samples", type=int, default=20)
    options = parser.parse_args()
    print(machine())
    model = TranslationModel.load(options.model)
    engine = choose_engine(model, precision="int8", purpose=Purpose.TARGETS)
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|")
    for source, target in zip(options.corpus[::2], options.corpus[1::2], strict=True):
        pairs = list(Corpus([source, target], languages=model.codec.languages))
        _row(engine, source, [_sample(pairs, seed) for seed in range(options.samples)])


def _sample(pairs: list[Pair], seed: int) -> list[Pair]:
    """As the corpus samples: runs of neighbouring lines."""
    starts = random.Random(seed).sample(range(0, len(pairs) - RUN, RUN), RUNS)
    return [pair for start in starts for pair in pairs[start : start + RUN]]


def _row(engine: Engine, name: str, samples: list[list[Pair]]) -> None:
    started = time.process_time()
    few = [evidence(engine, sample[:_FEW]) for sample in samples]
    seconds = (time.process_time() - started) / len(samples)
    clear = sum(min(each.order, each.together) >= _CLEAR for each in few)
    right = [evidence(engine, sample) for sample in samples]
    swapped = [evidence(engine, [Pair(pair.target, pair.source, "", 1) for pair in sample]) for sample in samples]
    shuffled = [evidence(engine, _unrelated(sample)) for sample in samples]
    slipped = [evidence(engine, _slipped(sample)) for sample in samples]
    cells = [_range(right, "order"), _range(swapped, "order")]
    cells += [_range(each, "together") for each in (right, shuffled, slipped)]
    print(f"| {name} | {' | '.join(cells)} | {clear} of {len(samples)} | {seconds:.2f} |", flush=True)


def _unrelated(sample: list[Pair]) -> list[Pair]:
    """Each source with a target that is neither its own nor, when `evidence` shifts the sources, becomes so."""
    half = len(sample) // 2
    targets = [pair.target for pair in sample[half:] + sample[:half]]
    return [Pair(pair.source, target, "", 1) for pair, target in zip(sample, targets, strict=True)]


def _slipped(sample: list[Pair]) -> list[Pair]:
    """Each source with the target of the next line."""
    targets = [pair.target for pair in sample[1:] + sample[:1]]
    return [Pair(pair.source, target, "", 1) for pair, target in zip(sample, targets, strict=True)]


def _range(found: list[Evidence], which: str) -> str:
    values = [getattr(each, which) for each in found]
    return f"{min(values):.1f} to {max(values):.1f}"


main()
