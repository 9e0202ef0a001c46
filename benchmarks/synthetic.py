"""Stores of any size without a corpus of that size: keys spread around a model's own states.

    python benchmarks/synthetic.py STORE --entries 1000000              for random weights in the shape of opus-mt
    python benchmarks/synthetic.py STORE --entries 1000000 --model DIR --corpus train.fr train.en

A key is a state of the model plus a third of the difference of two others, so that keys lie as states do, in clusters
and mostly in some directions. Methods are kept in the store as they are before training, which costs as much time as
trained ones. The random model is made once and kept beside the store.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import knnmt
from knnmt.binding import record_of
from knnmt.corpus import Pair
from knnmt.datastore import Entries, ModelRecord, StoreWriter
from knnmt.methods import AdaptiveMethod, RobustMethod, Vanilla
from knnmt.model import Purpose, TranslationModel, choose_engine
from knnmt.progress import show_progress
from knnmt.search import build_index

SEED = 1
LENGTH = 25  # positions of a sentence
BLOCK = 4_000  # sentences written at a time
K = 8
TEXT = Path(__file__).parent.parent / "examples" / "espresso"
BUNDLED = Path(__file__).parent.parent / "models" / "de-en-small"
Block = tuple[Any, Any, Any, list[int], list[Pair]]  # keys, values, log p, lengths, pairs


def random_model(directory: Path) -> Path:
    """Random weights in the shape of opus-mt: 6 + 6 layers of 512, 58,101 tokens; all its translations are as long as
    they may be, so that all systems take the same steps."""
    import torch
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    if not (directory / "config.json").exists():
        torch.manual_seed(SEED)
        pad = 58_100  # the last, as in opus-mt
        pads: dict[str, Any] = {"pad_token_id": pad, "decoder_start_token_id": pad}
        shape: dict[str, Any] = {"vocab_size": pad + 1, "decoder_vocab_size": pad + 1, "d_model": 512, **pads}
        for part in ("encoder", "decoder"):
            shape |= {f"{part}_layers": 6, f"{part}_attention_heads": 8, f"{part}_ffn_dim": 2048}
        config = MarianConfig.from_pretrained(BUNDLED, **shape)
        model = MarianMTModel(config)
        vocabulary = json.loads((BUNDLED / "vocab.json").read_text(encoding="utf-8"))
        known = vocabulary.pop("<pad>")
        model.final_logits_bias[:, known:pad] = -1e4  # tokens that the bundled tokenizer never gives
        model.final_logits_bias[:, config.eos_token_id] = -1e4
        vocabulary |= {f"unused{index}": index for index in range(known, pad)} | {"<pad>": pad}
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("source.spm", "target.spm", "tokenizer_config.json"):
            shutil.copy(BUNDLED / name, directory)
        (directory / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        model.generation_config = GenerationConfig.from_pretrained(BUNDLED, bad_words_ids=[[pad]], **pads)
        model.save_pretrained(directory)
    return directory


def write_store(path: Path, record: ModelRecord, blocks: Iterator[Block], combiners: dict[str, Any]) -> None:
    """A store of these blocks, indexed."""
    with StoreWriter(path, record) as writer:
        staged = writer.stage("benchmark")
        for keys, values, log_p, lengths, pairs in blocks:
            staged.append(keys, values, log_p, lengths, pairs, {})
        plan = writer.plan(staged)
        directory = writer.new_directory("index")
        build_index(Entries(plan.segments), directory)
        writer.commit(plan, index=directory)
        for name, combiner in combiners.items():
            place = writer.new_directory("combiners", name)
            combiner.save(place)
            writer.commit(combiner=(name, place))


def spread(states: Any, tokens: Any, entries: int) -> Iterator[Block]:
    """Blocks of sentences whose keys lie around the states."""
    random = np.random.default_rng(SEED)
    sentences = entries // LENGTH
    for start in range(0, sentences, BLOCK):
        numbers = range(start, min(start + BLOCK, sentences))
        at, plus, minus = random.integers(0, len(states), (3, len(numbers) * LENGTH))
        keys = (states[at] + (states[plus] - states[minus]) / 3).astype(np.float16)
        log_p = -random.exponential(1.5, len(at)).astype(np.float32)
        texts = [Pair(f"source {number}", f"target {number}", "benchmark", number + 1) for number in numbers]
        yield keys, tokens[at].astype(np.int32), log_p, [LENGTH] * len(numbers), texts


def make(path: Path, directory: str, corpus: list[Path], entries: int, precision: str = "int8") -> None:
    """A store for the model in a directory."""
    model = TranslationModel.load(directory, device="cpu")
    engine = choose_engine(model, "auto", precision, Purpose.TARGETS)
    sources, targets = (file.read_text(encoding="utf-8").splitlines()[:1000] for file in corpus)
    batches = list(engine.batches(model.codec.encode_sources(sources), model.codec.encode_targets(targets)))
    states = np.concatenate([batch.keys.numpy() for batch in batches])
    tokens = np.concatenate([batch.tokens.numpy() for batch in batches])
    states, tokens = states[tokens != model.codec.eos], tokens[tokens != model.codec.eos]  # nobody votes for the end
    scale = float(((states[1:] - states[:-1]) ** 2).sum(1).mean())
    combiners: dict[str, Any] = {"vanilla": Vanilla(K, 0.5, scale)}
    for method in (AdaptiveMethod(k=K, seed=SEED), RobustMethod(k=K, seed=SEED)):
        combiners[method.name] = method.untrained(scale)
    write_store(path, record_of(engine), spread(states, tokens, entries), combiners)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--model", help="a directory; without it random weights, kept beside the store")
    parser.add_argument("--corpus", type=Path, nargs=2, default=[TEXT / "memory.de", TEXT / "memory.en"])
    parser.add_argument("--precision", default="int8")
    options = parser.parse_args()
    knnmt.tune_allocator()
    directory = options.model or str(random_model(options.store.parent / "opus-size-random"))
    if (options.store / "manifest.json").exists():
        print(f"{options.store} is there already.")
        return
    make(options.store, directory, options.corpus, options.entries, options.precision)


if __name__ == "__main__":
    with show_progress():
        main()
