"""Building speed: tokens per CPU-second through model and disk, against the bare pass over the same sentences.

    python benchmarks/build.py                                     de-en-small and the bundled text
    python benchmarks/build.py --model DIR --corpus train.fr train.en --limit 300 --json

All ways are given the same blocks of sentences in turn. The bare pass is what any of them must do: encoder, decoder and
output projection of the same batches by torch, without softmax. Ours read the sentences' keys and confidence and write
them to a store; the index is not counted.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before any thread pool is made

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from machine import machine

import knnmt
from knnmt.binding import record_of
from knnmt.corpus import Corpus
from knnmt.datastore import StoreWriter
from knnmt.model import Engine, Purpose, TorchEngine, TranslationModel, choose_engine
from knnmt.progress import Meter
from knnmt.workflow import building as workflow

TEXT = Path(__file__).parent.parent / "examples" / "espresso"
WAYS = {
    "torch": ("torch", "auto"),
    "onnx float32": ("onnx", "float32"),
    "onnx int8": ("onnx", "int8"),
}
BLOCK_TOKENS = 4096  # so that all ways have several turns


def bare(engine: Engine) -> Callable[[Any], None]:
    """Encoder, decoder and output projection, and nothing else."""

    @torch.inference_mode()
    def run(block: Any) -> None:
        for states in engine.batches(block.sources, block.targets):
            for hidden in torch.split(states.hidden, engine.chunk_rows):
                engine.project(hidden)

    return run


def building(model: TranslationModel, way: str, scratch: Path, stack: ExitStack) -> Callable[[Any], None]:
    """What `knnmt build` does with a block."""
    engine = choose_engine(model, *WAYS[way], Purpose.TARGETS)
    writer = stack.enter_context(StoreWriter(scratch / way.replace(" ", "-"), record_of(engine)))
    staged = writer.stage("benchmark")
    meter = Meter()

    def run(block: Any) -> None:
        keys, values, confidence, lengths = workflow._encode(engine, block, meter)
        staged.append(keys, values, confidence, lengths, block.pairs, {})

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="de-en-small")
    parser.add_argument("--corpus", type=Path, nargs=2, default=[TEXT / "memory.de", TEXT / "memory.en"])
    parser.add_argument("--limit", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    knnmt.tune_allocator()
    model = TranslationModel.load(options.model, device="cpu")
    workflow.BLOCK_TOKENS, workflow._GULP = BLOCK_TOKENS, 16
    corpus = Corpus(options.corpus, languages=model.codec.languages, limit=options.limit)
    cpu: defaultdict[str, float] = defaultdict(float)
    tokens = 0
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        ways = {"bare pass": bare(TorchEngine(model))}
        ways |= {way: building(model, way, Path(scratch), stack) for way in WAYS}
        for number, block in enumerate(workflow._blocks(model, iter(corpus), workflow._KnownPairs(None, False))):
            for way, run in ways.items():
                before = time.process_time()
                run(block)
                cpu[way] += (time.process_time() - before) * (number > 0)  # the first block warms up
            tokens += sum(map(len, block.targets)) * (number > 0)
    speeds = {way: tokens / seconds for way, seconds in cpu.items()}
    result = {
        "machine": machine(options.threads),
        "tokens": tokens,
        "tokens_per_cpu_second": speeds,
        "ratios": {f"{way}/bare pass": cpu["bare pass"] / cpu[way] for way in WAYS},
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{result['machine']}\n{tokens:,} tokens")
    for way, speed in speeds.items():
        print(f"{way:14}{speed:9,.0f} tokens per CPU-second, {cpu['bare pass'] / cpu[way]:.2f} of the bare pass")


if __name__ == "__main__":
    main()
