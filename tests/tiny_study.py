"""A benchmark of three tiny domains, a preset whose fits take a moment, and results that are made up."""

import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sentences import SENTENCES

from knnmt.datastore.cuts import ConfidenceCut
from knnmt.decoding import Settings
from knnmt.study import Benchmark, Run, Study
from knnmt.study.lab import BaseModel
from knnmt.study.presets import PRESETS
from knnmt.study.setup import Preset, Setup
from knnmt.study.step import MissingResult, Result, Step
from knnmt.study.steps import Build, Collect, Compare, Finetune, Fit, Judge, View

HALVED, PLAIN, GZIPPED = "it", "koran", "law"
DOMAINS = (HALVED, PLAIN, GZIPPED)
DEV = TEST = 3  # sentences of each
Pairs = Sequence[tuple[str, str]]

_TRAINING: dict[str, Any] = {
    "updates": 10,
    "learning_rate": 0.01,
    "batch_sentences": 3,
    "validate_from": 5,
    "validate_every": 5,
}
QUICK = Preset(
    "quick",
    beta=PRESETS["tuned"].beta,
    options={"vanilla": {"decode_best": 0}, "adaptive": _TRAINING, "robust": _TRAINING, "evidence": _TRAINING},
)

SHORT = Settings(max_length=8, split=False)


def pairs_of(domain: str) -> list[tuple[str, str]]:
    """The domain's own sentences: dev, test, train."""
    return SENTENCES[DOMAINS.index(domain) :: len(DOMAINS)]


def write_pairs(folder: Path, name: str, pairs: Pairs, gzipped: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for side, language in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in pairs).encode()
        path = folder / f"{name}.{language}{'.gz' if gzipped else ''}"
        path.write_bytes(gzip.compress(text, mtime=0) if gzipped else text)


def write_benchmark(path: Path, domains: Sequence[str] = DOMAINS) -> Path:
    """A domain without a test file, one with all files, and one whose files are gzipped."""
    for domain in domains:
        dev, test, train = (pairs_of(domain)[part] for part in _PARTS)
        gzipped = domain == GZIPPED
        write_pairs(path / domain, "train", [*train[:5], ("", ""), *train[5:]], gzipped)
        write_pairs(path / domain, "dev", [*dev, *test] if domain == HALVED else dev, gzipped)
        if domain != HALVED:
            write_pairs(path / domain, "test", test, gzipped)
    return path


_PARTS = (slice(DEV), slice(DEV, DEV + TEST), slice(DEV + TEST, None))


def scored_pairs(domain: str) -> list[tuple[str, str]]:
    return pairs_of(domain)[_PARTS[1]]


def open_run(benchmark: Path, model: Any, out: Path, **options: Any) -> Run:
    """A run with the quick preset, which has to be among `PRESETS`, and with short translations."""
    defaults: dict[str, Any] = {"preset": QUICK.name, "engine": "torch", "seeds": 2, "settings": SHORT}
    return Run.open(benchmark, model, out, **defaults | options)


def setup_of(benchmark: Path, domains: Sequence[str] = DOMAINS, **changes: Any) -> Setup:
    """A setup without a model: steps can be listed and identified, not run."""
    texts = Benchmark.open(benchmark, ("de", "en"), domains)
    options: dict[str, Any] = {"model": fake_model(), "decoding": Settings().signature, "preset": QUICK} | changes
    return Setup(texts, seeds=dict.fromkeys(domains, 2), **options)


def fake_model(name: str = "/models/of-mine", **about: str) -> BaseModel:
    known = {"fingerprint": "0123456789", "tokenizer": "t", "engine": "torch", "precision": "float32"}
    return BaseModel(name, tuple((known | about).items()), dim=32, parameters=1_000_000)


def closure(steps: Iterator[Step]) -> dict[str, Step]:
    """The steps and everything that they need, by key."""
    found: dict[str, Step] = {}
    waiting = list(steps)
    while waiting:
        step = waiting.pop()
        if step.key not in found:
            found[step.key] = step
            waiting += step.inputs()
    return found


class MadeUp:
    """Results of steps that nobody ran.

    Args:
        bleu: of a system, by its name and the name of the split
        judged: the NLL, or other figures, of a combiner
        sentences: how many are said to have been translated
        p: of a system, against the baseline
    """

    def __init__(
        self,
        bleu: Callable[[str, str], float] = lambda system, split: 30.0,
        judged: Callable[[Judge], dict[str, Any]] = lambda step: {},
        sentences: int = 2000,
        p: float = 0.5,
    ) -> None:
        self.bleu, self.judged, self.sentences, self.p = bleu, judged, sentences, p
        self.read: list[Step] = []

    def __call__(self, step: Step) -> Result:
        self.read.append(step)
        about = {"step": step.title, "step_seconds": 60.0, "processor": "a pencil", "versions": {"knnmt": "0"}}
        return about | self._result(step)

    def _result(self, step: Step) -> Result:
        if isinstance(step, Compare):
            systems = {each.name: self._score(each.name, step) for each in step.systems}
            return {
                "sentences": self.sentences,
                "baseline": step.baseline,
                "systems": systems,
                "names": list(systems),
                # of independent systems, two of which differ by so much with a deviation of 0.37 at 500 sentences
                "bleu_covariance": (np.eye(len(systems)) * 0.37**2 * 500 / self.sentences / 2).tolist(),
                "signatures": {"bleu": "BLEU|tok:13a"},
            }
        if isinstance(step, Judge):
            figures = {"nll": 2.0, "accuracy": 0.5, "mean_lambda": 0.4, "gold_in_k": 0.6, "curve": curve()}
            return figures | {"signature": f"method:{step.fit.method}", "seed": step.fit.seed} | self.judged(step)
        if isinstance(step, Collect):
            return {"base_nll": 3.0, "base_accuracy": 0.4}
        if isinstance(step, Build | View):
            cut = step.cut if isinstance(step, View) else None
            share = 1 - (cut.stop - cut.start) if cut else 1
            search = {"index": "IVF8,PQ4", "probes": 4, "recall": {"8": 0.97}}
            sizes = {"keys": 64_000_000, "index": 8_000_000}
            return {"entries": round(1000 * share), "search": search, "bytes": sizes, "cpu_seconds": 30.0}
        if isinstance(step, Finetune):
            return {"cpu_seconds": 120.0, "bytes": 5_000_000, "updates": 700, "epochs": 2, "best": {"nll": 1.8}}
        if isinstance(step, Fit):
            return {"nll": 2.0}
        raise MissingResult(step)

    def _score(self, system: str, step: Compare) -> Result:
        bleu = self.bleu(system, step.split.name)
        return {
            "bleu": bleu,
            "bleu_ci": [bleu - 1, bleu + 1],
            "brevity_penalty": 1.0,
            "chrf": bleu + 20,
            "chrf_ci": [bleu + 19, bleu + 21],
            "bleu_p": None if system == step.baseline else self.p,
            "chrf_p": None if system == step.baseline else self.p,
            "signature": f"method:{system}",
            "seed": 1,
            "versions": {"knnmt": "0"},
            "processors": ["a pencil"],
        }


def curve(
    retrieved: Sequence[float | None] = (0.5,) * 5, missed: Sequence[float | None] = (0.2,) * 5
) -> list[dict[str, Any]]:
    """Mean λ by interval of confidence, as a `Judge` gives it."""
    return [
        {
            "confidence": [index / 5, (index + 1) / 5],
            "retrieved": found,
            "positions": 0 if lam is None else 10,
            "mean_lambda": lam,
        }
        for found, means in ((True, retrieved), (False, missed))
        for index, lam in enumerate(means)
    ]


def is_cut(step: Step, start: float, stop: float) -> bool:
    """Whether the step is a view without the entries between two shares of the ranking by confidence."""
    return isinstance(step, View) and step.cut == ConfidenceCut(start, stop)


def held(study: Study, setup: Setup, results: MadeUp, *about: str) -> bool | None:
    """Whether the one claim that says all this holds."""
    claims = study.section(setup, results).claims
    found = [claim for claim in claims if all(each in claim.text for each in about)]
    assert len(found) == 1, [claim.text for claim in claims]
    return found[0].held
