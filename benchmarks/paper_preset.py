"""What `knnmt study --preset paper` takes on the official benchmark, from rates measured on this machine.

    python benchmarks/paper_preset.py

A model with random weights in the shape of facebook/wmt19-de-en (FSMT) goes through the study `main` with the text of
the espresso example. Its rates are then applied to the sizes of the official benchmark.
"""

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine import machine

from knnmt.cli.threads import use_threads
from knnmt.progress import show_progress
from knnmt.study import STUDIES, Benchmark, Domain, Plan, Run, Split
from knnmt.workflow import pairing

SEED = 1
VOCABULARY = 42_024
TEXT = Path(__file__).parent.parent / "examples" / "espresso"
# train sentences and target tokens, as the paper reports them
OFFICIAL = {
    "it": (222_927, 3_710_000),
    "koran": (17_982, 524_000),
    "law": (467_309, 19_000_000),
    "medical": (248_099, 6_900_000),
}
HELD_OUT = 2_000  # sentences of each dev and test set


def random_fsmt(directory: Path) -> None:
    """Random weights in the shape of wmt19-de-en: 6 + 6 layers of 1,024, with a small vocabulary that is filled up."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import FSMTConfig, FSMTForConditionalGeneration, FSMTTokenizer

    if (directory / "config.json").exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    bpe = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    bpe.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=6_000,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    bpe.train([str(path) for path in sorted(TEXT.glob("*.??"))], trainer)
    vocabulary = bpe.get_vocab()
    vocabulary |= {f"unused{number}": number for number in range(len(vocabulary), VOCABULARY)}
    merges = json.loads(bpe.to_str())["model"]["merges"]
    (directory / "merges.txt").write_text("".join(f"{left} {right}\n" for left, right in merges), encoding="utf-8")
    files = {side: directory / f"vocab-{side}.json" for side in ("src", "tgt")}
    for file in files.values():
        file.write_text(json.dumps(vocabulary), encoding="utf-8")
    torch.manual_seed(SEED)
    shape: dict[str, Any] = {
        f"{part}_{what}": size
        for part in ("encoder", "decoder")
        for what, size in (("layers", 6), ("attention_heads", 16), ("ffn_dim", 8192 if part == "encoder" else 4096))
    }
    config = FSMTConfig(langs=["de", "en"], src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY, d_model=1024, **shape)
    tokenizer = FSMTTokenizer(  # type: ignore[no-untyped-call]
        langs=["de", "en"],
        src_vocab_file=str(files["src"]),
        tgt_vocab_file=str(files["tgt"]),
        merges_file=str(directory / "merges.txt"),
        model_max_length=1024,
    )
    tokenizer.save_pretrained(directory)
    FSMTForConditionalGeneration(config).save_pretrained(directory)


def espresso(directory: Path) -> None:
    """The example's text in the layout of a benchmark."""
    (directory / "espresso").mkdir(parents=True, exist_ok=True)
    for part, name in (("memory", "train"), ("dev", "dev"), ("test", "test")):
        for language in ("de", "en"):
            shutil.copy(TEXT / f"{part}.{language}", directory / "espresso" / f"{name}.{language}")


def official() -> Benchmark:
    """The sizes of the official benchmark, without its text."""

    def split(name: str, lines: int, line_tokens: float) -> Split:
        files = (Path(f"{name}.de"), Path(f"{name}.en"))
        return Split(name, files, ("de", "en"), 0, lines, f"the official {name}", line_tokens)

    domains = {}
    for name, (lines, tokens) in OFFICIAL.items():
        train, dev, test = (
            split(f"{name} {part}", count, tokens / lines)
            for part, count in (("train", lines), ("dev", HELD_OUT), ("test", HELD_OUT))
        )
        domains[name] = Domain(name, train, dev, test, HELD_OUT, halved=False)
    return Benchmark(Path("official"), domains)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=Path(".bench/paper-preset"))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    place = arguments.directory
    random_fsmt(place / "model")
    espresso(place / "benchmark")
    pairing._check = lambda *_: None  # to random weights no two lines belong together
    with show_progress():
        run = Run.open(place / "benchmark", str(place / "model"), place / "report", only=["main"], preset="paper")
        run.finish()
    print(machine(arguments.threads))
    (setup,) = run.setups.values()
    setup = replace(setup, benchmark=official(), seeds=dict.fromkeys(OFFICIAL, 3))
    print(f"{'study':12} {'CPU-hours':>10} {'disk, GB':>9} {'memory, GB':>11}")
    for name, study in STUDIES.items():
        plan = Plan.of(study.steps(setup), run.lab, run.report)
        print(f"{name:12} {plan.seconds / 3600:10.1f} {plan.disk / 1e9:9.1f} {plan.memory / 1e9:11.1f}")
    plan = Plan.of((step for study in STUDIES.values() for step in study.steps(setup)), run.lab, run.report)
    print(f"{'all':12} {plan.seconds / 3600:10.1f} {plan.disk / 1e9:9.1f} {plan.memory / 1e9:11.1f}")


if __name__ == "__main__":
    main()
