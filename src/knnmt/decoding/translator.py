"""The translator: lines in, lines out, in the same order."""

import warnings
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path

from knnmt.binding import check_binding, load_model
from knnmt.combiner import Combiner
from knnmt.corpus import has_text
from knnmt.datastore import Store
from knnmt.decoding.hypothesis import Hypothesis
from knnmt.decoding.settings import Settings
from knnmt.decoding.splitting import Splitter
from knnmt.decoding.strategy import choose_strategy
from knnmt.decoding.translation import Sentence, Translation
from knnmt.errors import MethodError
from knnmt.memory import Memory
from knnmt.methods import BASE, default_of, load_combiner, no_combiner
from knnmt.model import Engine, TranslationModel, batches_by_tokens
from knnmt.progress import Meter, progress
from knnmt.search import Searcher
from knnmt.shell import command

_BATCHES_READ = 16  # batches of lines read at once, so that the sentences of a batch have similar lengths
_SOURCE_TOKENS = 8192  # maximum of source tokens per batch, padding included
_FIXED = ("engine", "precision", "in_memory", "skip_above")  # settings that cannot change after construction


class Translator:
    """Translates with a model, and with a memory if there is one. `Translator.open` creates it from a store.

    Args:
        model: an engine, or a model, for which the settings choose an engine
        memory: a memory bound to the same model
        settings: settings of the beam search; `translate` can be given others
        method: the method's name in signatures; by default that of the memory's combiner
        store: the store named in signatures; by default the memory's

    Example:
        list(Translator.open("memory").translate(["Starten Sie den Dienst neu."]))
    """

    def __init__(
        self,
        model: TranslationModel | Engine,
        memory: Memory | None = None,
        settings: Settings | None = None,
        *,
        method: str | None = None,
        store: Store | None = None,
    ) -> None:
        self.memory = memory
        settings = settings or Settings(skip_above=memory.skip_above if memory else 1.0)
        self.settings = settings.tuned_for(memory.combiner if memory else None)
        if memory is not None and memory.skip_above != self.settings.skip_above:
            raise MethodError(
                f"The settings skip above {self.settings.skip_above:g}, but the memory above {memory.skip_above:g}; "
                "give both the same."
            )
        self.store = store or (memory.searcher.store if memory else None)
        self.method = method or (memory.combiner.method if memory else BASE)
        made_with = self.store.model.precision if self.store else None
        self.strategy = choose_strategy(model, memory, self.settings, made_with)
        self.engine = self.strategy.engine
        self.model = self.engine.model
        self.settings.check_vocabulary(self.model.vocab_size)
        self.splitter = Splitter(self.model.codec.source_lang, self.model.codec.target_lang)

    @classmethod
    def open(
        cls,
        store: Store | str | Path,
        method: str | Combiner | None = None,
        *,
        settings: Settings | None = None,
        model: TranslationModel | str | None = None,
        searcher: Searcher | None = None,
        device: str = "auto",
    ) -> "Translator":
        """A translator with a store's model and a store's entries.

        Args:
            store: a store or its directory
            method: the name of a fitted combiner, or `base`, or a combiner; by default the best fitted one
            settings: settings of the beam search
            model: the store's model, to share it, or its new path if it was moved
            searcher: a searcher of the same store, to share it with other translators
        """
        store = Store.open(store)
        settings = settings or Settings()
        default = default_of(store)
        name = method.method if isinstance(method, Combiner) else method or default.name
        combiner = method if isinstance(method, Combiner) else load_combiner(store, name)
        if method is None and combiner is None and store.manifest.default != BASE:
            warnings.warn(f"{no_combiner(store, default)} Until then the model translates alone.", stacklevel=2)
        if method is None and default.unusable:
            see = command("info", store.path)
            warnings.warn(f"{', '.join(default.unusable)} cannot be used, see `{see}`.", stacklevel=2)
        settings.check_vocabulary(store.model.vocab_size)
        if combiner is not None and combiner.k > store.entry_count:
            raise MethodError(
                f"{name} looks at {combiner.k} neighbours, but the store holds {store.entry_count}; fit it again."
            )
        if isinstance(model, TranslationModel):
            check_binding(model, store)
        else:
            model = load_model(store, device, model)
        memory = None
        if combiner is not None:
            memory = Memory(searcher or Searcher(store, settings.in_memory), combiner, settings.skip_above)
        return cls(model, memory, settings, method=name, store=store)

    @property
    def signature(self) -> str:
        """What a reader needs to get the same translations again."""
        parts = [f"method:{self.method}", f"engine:{self.strategy.name}", self.settings.signature]
        if self.memory is not None:
            parts += [self.memory.combiner.signature, f"index:{self.memory.searcher.description}"]
        parts.append(f"model:{self.model.fingerprint[:8]}")
        if self.store is not None:
            parts.append(f"store:{self.store.fingerprint[:8]}")
        return "|".join(parts)

    def translate(self, lines: Iterable[str | None], settings: Settings | None = None) -> Iterator[str]:
        """Translate lines: one line out per line in; an empty line gives an empty line.

        Lines are read when they are needed, several batches at once.

        Args:
            lines: lines of text; a None means that no more lines are available now, so the lines read so far are
                translated at once
            settings: used instead of the translator's own; `engine`, `precision`, `in_memory` and `skip_above` must
                be the same
        """
        return (translation.text for translation in self.translations(lines, settings))

    def translations(self, lines: Iterable[str | None], settings: Settings | None = None) -> Iterator[Translation]:
        """Like `translate`, but with n-best lists and tokens."""
        if isinstance(lines, str | bytes):  # it would be read as a list of characters
            raise TypeError(f"translate takes lines, not a single {type(lines).__name__}; give [line].")
        return self._stream(lines, self._allowed(settings))

    def _allowed(self, settings: Settings | None) -> Settings:
        """The settings of a call, checked against those that cannot change."""
        if settings is None:
            return self.settings
        for name in _FIXED:
            asked, own = getattr(settings, name), getattr(self.settings, name)
            if asked != own:
                raise MethodError(
                    f"The translator was made with {name}={own!r}, which a call cannot change to {asked!r}; "
                    "make another translator."
                )
        settings.check_vocabulary(self.model.vocab_size)
        return settings.tuned_for(self.memory.combiner if self.memory else None)

    def _stream(self, lines: Iterable[str | None], settings: Settings) -> Iterator[Translation]:
        total, done = len(lines) if isinstance(lines, Sized) else None, 0
        for block in _blocks(lines, _BATCHES_READ * settings.batch_size):
            # one bar per block: none may be visible while the user types, or while the caller shows its own
            with progress(f"Translating ({self.method})", total=total or len(block), unit="tokens") as meter:
                if total:
                    meter.skip(done)
                translated = self._translate(block, settings, meter)
            done += len(block)
            yield from translated

    def _translate(self, lines: list[str], settings: Settings, meter: Meter) -> list[Translation]:
        split = self.splitter.split if settings.splits else _whole
        sentences = [split(line) if has_text(line) else [] for line in lines]
        encoded = self._encode([sentence for line in sentences for sentence in line])
        distinct = [list(ids) for ids in dict.fromkeys(map(tuple, encoded))]  # the same sentence is translated once
        found: dict[tuple[int, ...], list[Hypothesis]] = {}
        for batch in batches_by_tokens(distinct, budget=_SOURCE_TOKENS, rows=settings.batch_size):
            hypotheses = self.strategy.decode([distinct[i] for i in batch], settings)
            found |= {tuple(distinct[i]): each for i, each in zip(batch, hypotheses, strict=True)}
            share = len(batch) / len(distinct)
            meter.advance(share * len(lines), units=sum(len(each[0].tokens) for each in hypotheses))
        decoded = iter([(ids, found[tuple(ids)]) for ids in encoded])
        return [
            self._assemble(line, [next(decoded) for _ in parts], settings)
            for line, parts in zip(lines, sentences, strict=True)
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

    def _assemble(self, line: str, parts: list[tuple[list[int], list[Hypothesis]]], settings: Settings) -> Translation:
        texts = [self.model.codec.decode([h.tokens for h in found]) for _, found in parts]
        n_best = []
        if len(parts) == 1 and settings.n_best > 1:
            n_best = [(text, h.score) for text, h in zip(texts[0], parts[0][1], strict=True) if h.score is not None]
        sentences = [Sentence(source, found[0].tokens) for source, found in parts]
        return Translation(line, self.splitter.join([best[0] for best in texts]), n_best, sentences)


def _blocks(lines: Iterable[str | None], size: int) -> Iterator[list[str]]:
    """Lines in lists of at most `size`; a None ends a list early."""
    block: list[str] = []
    for line in lines:
        if line is not None and not isinstance(line, str):
            raise TypeError(f"translate takes lines of str, not of {type(line).__name__}; give text.")
        if line is not None:
            block.append(line)
        if block and (line is None or len(block) == size):
            yield block
            block = []
    if block:
        yield block


def _whole(line: str) -> list[str]:
    return [line.strip()]
