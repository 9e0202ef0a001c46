"""The public face of translation: lines in, lines out, in the same order."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from knnmt.combiner import BASE, Combiner, default_of, load_combiner
from knnmt.corpus import has_text
from knnmt.datastore import Store
from knnmt.decoding.binding import check_binding, load_model, no_combiner
from knnmt.decoding.engines import Engine, make_engine
from knnmt.decoding.hypothesis import Hypothesis
from knnmt.decoding.memory import Memory
from knnmt.decoding.settings import Settings
from knnmt.decoding.splitting import Splitter
from knnmt.errors import MethodError
from knnmt.model import TranslationModel, batches_by_tokens
from knnmt.progress import progress
from knnmt.search import Searcher
from knnmt.shell import command

_SOURCE_TOKENS = 8192  # padded source tokens of a batch, whatever its number of sentences


@dataclass(frozen=True)
class Sentence:
    """A sentence as the model saw it and as it translated it, in token ids."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Translation:
    """A line's translation.

    Attributes:
        text: the best translation
        n_best: the n best texts with their scores, where several were asked for and the line is one sentence
        sentences: of the line; none where it is empty
    """

    source: str
    text: str
    n_best: list[tuple[str, float]]
    sentences: list[Sentence]

    @property
    def tokens(self) -> int:
        """How many tokens were generated."""
        return sum(len(sentence.target) for sentence in self.sentences)


class Translator:
    """Translates with a store's model and its neighbours' help.

    Args:
        store: a store or its directory
        method: the name of a fitted combiner, or `base`, or a combiner; by default the best that was fitted
        model: the store's, to share it, or where it is now if it was moved
        searcher: to share with other translators of the same store
        settings: beam search's

    Example:
        Translator("memory").translate(["Starten Sie den Dienst neu."])
    """

    def __init__(
        self,
        store: Store | str | Path,
        method: str | Combiner | None = None,
        *,
        settings: Settings | None = None,
        model: TranslationModel | str | None = None,
        searcher: Searcher | None = None,
        device: str = "auto",
    ) -> None:
        self.store = Store.open(store)
        self.settings = settings or Settings()
        default = default_of(self.store)
        self.method = method.method if isinstance(method, Combiner) else method or default.name
        combiner = method if isinstance(method, Combiner) else load_combiner(self.store, self.method)
        if method is None and combiner is None and self.store.manifest.default != BASE:
            warnings.warn(f"{no_combiner(self.store, default)} Until then the model translates alone.", stacklevel=2)
        if method is None and default.unusable:
            see = command("info", self.store.path)
            warnings.warn(f"{', '.join(default.unusable)} cannot be used, see `{see}`.", stacklevel=2)
        self.settings.check_vocabulary(self.store.model.vocab_size)
        if combiner is not None and combiner.k > self.store.entry_count:
            raise MethodError(
                f"{self.method} looks at {combiner.k} neighbours, but the store holds {self.store.entry_count}; "
                "fit it again."
            )
        if isinstance(model, TranslationModel):
            check_binding(model, self.store)
        else:
            model = load_model(self.store, device, model)
        memory = None
        if combiner is not None:
            memory = Memory(
                searcher or Searcher(self.store, self.settings.in_memory), combiner, self.settings.skip_above
            )
        self.engine: Engine = make_engine(model, memory, self.settings, self.store.model.precision)
        self.model = self.engine.model
        self.splitter = Splitter(self.model.codec.source_lang, self.model.codec.target_lang)

    @property
    def signature(self) -> str:
        """What a reader needs to get the same translations again."""
        parts = [f"method:{self.method}", f"engine:{self.engine.name}", self.settings.signature]
        if (memory := self.engine.memory) is not None:
            parts += [memory.combiner.signature, f"index:{memory.searcher.description}"]
        parts += [f"model:{self.store.model.fingerprint[:8]}", f"store:{self.store.fingerprint[:8]}"]
        return "|".join(parts)

    def translate(self, lines: Iterable[str]) -> list[str]:
        """One line out for each line in; empty lines give empty lines."""
        return [translation.text for translation in self.run(lines)]

    def run(self, lines: Iterable[str]) -> list[Translation]:
        """`translate`, with n-best lists and token counts."""
        lines = _checked(lines)
        split = self.splitter.split if self.settings.splits else _whole
        sentences = [split(line) if has_text(line) else [] for line in lines]
        flat = [sentence for line in sentences for sentence in line]
        encoded = self._encode(flat)
        decoded = iter(zip(encoded, self._decode(encoded), strict=True))
        return [
            self._assemble(line, [next(decoded) for _ in parts]) for line, parts in zip(lines, sentences, strict=True)
        ]

    def _encode(self, sentences: list[str]) -> list[list[int]]:
        codec = self.model.codec
        encoded = codec.encode_sources(sentences)
        for sentence, ids in zip(sentences, encoded, strict=True):
            if len(ids) > codec.max_length:
                warnings.warn(
                    f"A sentence of {len(ids)} tokens was cut to the model's {codec.max_length}: {sentence[:60]}…",
                    stacklevel=4,
                )
        return [codec.truncate_source(ids) for ids in encoded]

    def _decode(self, encoded: list[list[int]]) -> list[list[Hypothesis]]:
        distinct = [list(ids) for ids in dict.fromkeys(map(tuple, encoded))]  # the same sentence is translated once
        results: dict[tuple[int, ...], list[Hypothesis]] = {}
        batches = batches_by_tokens(distinct, budget=_SOURCE_TOKENS, rows=self.settings.batch_size)
        with progress(f"Translating ({self.method})", total=len(distinct), unit="tokens") as meter:
            for batch in batches:
                found = self.engine.decode([distinct[i] for i in batch], self.settings)
                results |= {tuple(distinct[i]): hypotheses for i, hypotheses in zip(batch, found, strict=True)}
                meter.advance(len(batch), units=sum(len(best[0].tokens) for best in found))
        return [results[tuple(ids)] for ids in encoded]

    def _assemble(self, line: str, parts: list[tuple[list[int], list[Hypothesis]]]) -> Translation:
        texts = [self.model.codec.decode([h.tokens for h in found]) for _, found in parts]
        n_best = []
        if len(parts) == 1 and self.settings.n_best > 1:
            n_best = [(text, h.score) for text, h in zip(texts[0], parts[0][1], strict=True) if h.score is not None]
        sentences = [Sentence(source, found[0].tokens) for source, found in parts]
        return Translation(line, self.splitter.join([best[0] for best in texts]), n_best, sentences)


def _checked(lines: Iterable[str]) -> list[str]:
    """A list of lines; a single str would be taken for a list of characters."""
    if isinstance(lines, str | bytes):
        raise TypeError(f"translate takes a list of lines, not a single {type(lines).__name__}; give [line].")
    lines = list(lines)
    for line in lines:
        if not isinstance(line, str):
            raise TypeError(f"translate takes a list of str, not of {type(line).__name__}; give text.")
    return lines


def _whole(line: str) -> list[str]:
    return [line.strip()]
