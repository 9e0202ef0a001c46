"""Decoding speed, one interleaved run over the same sentences: generate, CTranslate2, and ours with and without kNN.

    python benchmarks/decode.py --model DIR --store STORE --source FILE --limit 64
    python benchmarks/decode.py … --batch 8 --precision int8 --systems generate,base,robust --json

Every system lives in a process of its own, because allocator settings and peak memory are a process's, and all get the
same batches in turn. CPU time counts; wall time stands beside it. Threads that wait do not count as work. Systems that
are not fitted in the store or not installed (CTranslate2: `pip install ctranslate2`) are left out and named.

    generate          transformers' own, as it comes
    generate-malloc   the same with the allocator tuned
    ctranslate2       int8, without kNN
    base, vanilla, …  our beam search on the engine asked for, with the combiners the store has
    robust@torch      another engine than --engine; also @onnx, @float32, @int8, @mapped, @memory, @skip0.9, and
                      several of them: robust@float32@memory
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before any thread pool is made

import argparse
import json
import multiprocessing
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from machine import machine

BEAM, PENALTY = 4, 0.6
OURS = ("base", "vanilla", "adaptive", "robust")
SYSTEMS = ("generate", "generate-malloc", "ctranslate2", *OURS, "base@torch", "robust@torch")
Times = defaultdict[str, float]  # CPU-seconds by part; "steps" counts
RATIOS = (("robust", "generate"), ("robust", "ctranslate2"), ("robust", "base"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--in-memory", action=argparse.BooleanOptionalAction, help="else where it fits")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lines = options.source.read_text(encoding="utf-8").split("\n")[: options.limit]
    lines = sorted(
        dict.fromkeys(filter(None, lines)), key=lambda line: -len(line)
    )  # each once: ours would not repeat it
    batches = [lines[i : i + options.batch] for i in range(0, len(lines), options.batch)]
    workers, left_out = _start(options)
    for batch in batches:
        for worker in workers.values():
            worker.send(batch)
            worker.recv()
    systems = {name: _finish(worker, len(lines)) for name, worker in workers.items()}
    result = {
        "machine": machine(options.threads),
        "batch": options.batch,
        "beam": BEAM,
        "sentences": len(lines),
        "left_out": left_out,
        "systems": systems,
        "ratios": {
            f"{a}/{b}": systems[a]["sentences_per_cpu_second"] / systems[b]["sentences_per_cpu_second"]
            for a, b in RATIOS
            if a in systems and b in systems
        },
        "wall_ratios": {
            f"{a}/{b}": systems[a]["sentences_per_second"] / systems[b]["sentences_per_second"]
            for a, b in RATIOS
            if a in systems and b in systems
        },
    }
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        _show(result)


def _start(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, str]]:
    from knnmt.datastore import Store

    fitted = Store.open(options.store).combiners
    workers, left_out = {}, {}
    spawn = multiprocessing.get_context("spawn")
    for name in options.systems.split(","):
        if name == "ctranslate2" and find_spec("ctranslate2") is None:
            left_out[name] = "not installed"
        elif name.split("@")[0] in OURS[1:] and name.split("@")[0] not in fitted:
            left_out[name] = "not fitted in the store"
        else:
            workers[name], theirs = spawn.Pipe()
            spawn.Process(target=_work, args=(name, options, theirs), daemon=True).start()
            theirs.close()  # so that the end of a worker that fails is noticed
            workers[name].recv()  # loaded, and warm
    return workers, left_out


def _finish(worker: Any, sentences: int) -> dict[str, Any]:
    worker.send(None)
    found = worker.recv()
    return {
        "sentences_per_second": sentences / found["wall"],
        "sentences_per_cpu_second": sentences / found["cpu"],
        "cpu_ms_per_token": 1000 * found["cpu"] / found["tokens"],
        "tokens": found["tokens"],
        "peak_bytes": found["peak"],
        "cpu_ms_per_step": {part: 1000 * seconds / found["steps"] for part, seconds in found["parts"].items()},
    }


def _work(name: str, options: argparse.Namespace, pipe: Any) -> None:
    """A worker: answers each batch with nothing, and the end with what it took."""
    import torch

    torch.set_num_threads(options.threads)
    parts: Times = defaultdict(float)
    translate = _system(name, options, parts)
    translate(["Un."])
    parts.clear()
    pipe.send(None)
    wall = cpu = 0.0
    tokens = 0
    while (batch := pipe.recv()) is not None:
        started = time.perf_counter(), time.process_time()
        tokens += translate(batch)
        wall += time.perf_counter() - started[0]
        cpu += time.process_time() - started[1]
        pipe.send(None)
    steps = max(int(parts.pop("steps", 0)), 1)
    if parts:
        parts["beam"] = cpu - sum(parts.values())
    pipe.send({"wall": wall, "cpu": cpu, "tokens": tokens, "steps": steps, "parts": dict(parts), "peak": _peak()})


def _system(name: str, options: argparse.Namespace, parts: Times) -> Callable[[list[str]], int]:
    """A function that translates sentences and says how many tokens came out."""
    if name.startswith("generate"):
        return _generate(options.model, tuned=name.endswith("malloc"))
    if name == "ctranslate2":
        return _ctranslate2(options.model, options.threads)
    return _knnmt(name, options, parts)


def _generate(directory: str, tuned: bool) -> Callable[[list[str]], int]:
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import knnmt

    if tuned:
        knnmt.tune_allocator()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSeq2SeqLM.from_pretrained(directory, dtype=torch.float32).eval()

    def translate(lines: list[str]) -> int:
        inputs = tokenizer(lines, return_tensors="pt", padding=True)
        longest = _cap(inputs["input_ids"].shape[1]) + 1  # the start token counts here
        with torch.inference_mode():
            found = model.generate(**inputs, num_beams=BEAM, length_penalty=PENALTY, max_length=longest)
        return int((found[:, 1:] != tokenizer.pad_token_id).sum())

    return translate


def _ctranslate2(directory: str, threads: int) -> Callable[[list[str]], int]:
    import ctranslate2
    from ctranslate2.converters import TransformersConverter
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    with tempfile.TemporaryDirectory() as scratch:
        converted = TransformersConverter(directory).convert(f"{scratch}/model", quantization="int8")
        model = ctranslate2.Translator(converted, device="cpu", compute_type="int8", intra_threads=threads)

    def translate(lines: list[str]) -> int:
        pieces = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(lines)["input_ids"]]
        longest = _cap(max(map(len, pieces)))
        found = model.translate_batch(
            pieces, beam_size=BEAM, length_penalty=PENALTY, max_decoding_length=longest, max_batch_size=0
        )
        return sum(len(each.hypotheses[0]) + 1 for each in found)  # the end of sentence is not among them

    return translate


def _knnmt(name: str, options: argparse.Namespace, parts: Times) -> Callable[[list[str]], int]:
    import faiss

    import knnmt

    knnmt.tune_allocator()
    faiss.omp_set_num_threads(options.threads)
    settings = knnmt.Settings(
        beam=BEAM,
        length_penalty=PENALTY,
        batch_size=options.batch,
        split=False,
        engine=options.engine,
        precision=options.precision,
        in_memory=options.in_memory,
    )
    method, *variants = name.split("@")
    for variant in variants:
        settings = replace(settings, **_variant(variant))
    translator = knnmt.Translator.open(options.store, method, settings=settings, model=options.model)
    _watch_decoder(translator.engine, parts)
    if translator.memory is not None:
        _watch(translator.memory.searcher, "search", "search", parts)
        _watch(translator.memory.combiner, "combine", "combiner", parts)

    def translate(lines: list[str]) -> int:
        longest = _cap(max(map(len, translator.model.codec.encode_sources(lines))))
        translations = translator.translations(lines, replace(settings, max_length=longest))
        return sum(translation.tokens for translation in translations)

    return translate


def _cap(source_tokens: int) -> int:
    """The most tokens of a translation, for all systems by the longest source of a batch."""
    return int(1.2 * source_tokens) + 10


def _variant(name: str) -> dict[str, Any]:
    """The settings that a system's name asks for."""
    if name.startswith("skip"):
        return {"skip_above": float(name.removeprefix("skip"))}
    if name in ("torch", "onnx"):
        return {"engine": name}
    if name in ("float32", "int8"):
        return {"precision": name}
    return {"in_memory": {"memory": True, "mapped": False}[name]}


def _watch_decoder(engine: Any, parts: Times) -> None:
    """Time the model: encoding, steps and what moving hypotheses costs it."""
    start = engine.start

    def watched(sources: Any) -> Any:
        before = time.process_time()
        decoder = start(sources)
        parts["model"] += time.process_time() - before
        _watch(decoder, "step", "model", parts, count=True)
        _watch(decoder, "project", "model", parts)
        _watch(decoder, "select", "model", parts)
        return decoder

    engine.start = watched


def _watch(thing: Any, method: str, part: str, parts: Times, count: bool = False) -> None:
    original = getattr(thing, method)

    def timed(*arguments: Any, **named: Any) -> Any:
        before = time.process_time()
        answer = original(*arguments, **named)
        parts[part] += time.process_time() - before
        parts["steps"] += count
        return answer

    setattr(thing, method, timed)


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def _show(result: dict[str, Any]) -> None:
    print(result["machine"])
    print(f"{result['sentences']} sentences, {result['batch']}×{result['beam']} rows")
    for name, reason in result["left_out"].items():
        print(f"left out: {name}, {reason}")
    print(f"{'':22}{'sent./CPU-s':>12}{'sent./s':>10}{'CPU-ms/token':>14}{'peak MB':>10}   CPU-ms per step")
    for name, system in result["systems"].items():
        split = ", ".join(f"{part} {cost:.1f}" for part, cost in system["cpu_ms_per_step"].items())
        print(
            f"{name:22}{system['sentences_per_cpu_second']:12.2f}{system['sentences_per_second']:10.2f}"
            f"{system['cpu_ms_per_token']:14.2f}{system['peak_bytes'] / 1e6:10,.0f}   {split}"
        )
    for name, ratio in result["ratios"].items():
        print(f"{name}: {ratio:.2f} (wall {result['wall_ratios'][name]:.2f})")


if __name__ == "__main__":
    main()
