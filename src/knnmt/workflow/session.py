"""The common part of fitting and evaluating: an open store, an engine, a searcher and a set of pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from knnmt.binding import check_binding, load_model
from knnmt.combiner import Combiner, Needs
from knnmt.corpus import Corpus, CorpusSummary, Pair, text_hash
from knnmt.datastore import Store, StoredSentences
from knnmt.decoding import Settings, Translator
from knnmt.decoding.settings import GENERATE
from knnmt.evaluation import corpus_bleu
from knnmt.model import Engine, Purpose, TranslationModel, choose_engine
from knnmt.search import Searcher
from knnmt.training import Features, collect_features, collect_stored
from knnmt.workflow.pairing import check_pairing

SENTENCES = 2000  # how many are drawn from the store if there are no pairs


@dataclass(frozen=True)
class Session:
    """A store in use with a set of pairs that are not in it; without pairs, the store's own sentences are used.

    Attributes:
        drawn: how many of the store's own sentences to draw
    """

    store: Store
    engine: Engine
    searcher: Searcher
    pairs: list[Pair]
    summary: CorpusSummary | None
    drawn: int = SENTENCES
    _collected: dict[tuple[int, bool], Features] = field(default_factory=dict)
    _of_store: dict[tuple[str, int, int], Features] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        store: Store | str | Path,
        corpus: Sequence[str | Path] | str | Path,
        *,
        limit: int | None = None,
        sentences: int = SENTENCES,
        model: TranslationModel | str | None = None,
        device: str = "auto",
        settings: Settings | None = None,
        force: bool = False,
    ) -> "Session":
        """Open a store for fitting or evaluating; the model is run as in translation.

        `model` is the store's model, or its new path if it was moved. With `force` it is not checked that the pairs are
        in the model's languages.
        """
        store = Store.open(store)
        if isinstance(model, TranslationModel):
            check_binding(model, store)
        else:
            model = load_model(store, device, model)
        settings = settings or Settings()
        name = "torch" if settings.engine == GENERATE else settings.engine
        engine = choose_engine(model, name, settings.precision, Purpose.TARGETS, store.model.precision)
        searcher = Searcher(store, settings.in_memory)
        if not corpus:
            return cls(store, engine, searcher, [], None, sentences)
        read = Corpus(corpus, languages=model.codec.languages, limit=limit, force=force)
        summary = read.scan()
        if not force:
            check_pairing(engine, summary.samples)
        return cls(store, engine, searcher, list(read), summary)

    @property
    def model(self) -> TranslationModel:
        return self.engine.model

    def features(self, needs: Needs, seed: int = 1, keep_queries: bool = False) -> Features:
        """What model and search find at every position; computed once for the same pairs.

        Args:
            needs: the needs of the combiners; the features may hold more
            seed: seed for drawing the store's own sentences
            keep_queries: also keep the queries
        """
        key = (0 if self.pairs else seed, keep_queries)
        known = self._collected.get(key) or self._collected.get((key[0], True))
        if known is not None and known.observation.is_enough_for(needs):
            return known
        if self.pairs:
            found = collect_features(self.engine, self.searcher, self.pairs, needs, keep_queries=keep_queries)
        else:
            found = collect_stored(self.engine, self.searcher, self.drawn, needs, seed=seed, keep_queries=keep_queries)
        self._collected[key] = found
        return found

    def stored(self, count: int, needs: Needs, seed: int = 1) -> Features:
        """What is found for some of the store's sentences, as if they were not in it; computed once."""
        return self._once(
            ("stored", count, seed),
            needs,
            lambda: collect_stored(self.engine, self.searcher, count, needs, seed=seed),
        )

    def found_again(self, count: int, needs: Needs, seed: int = 1) -> Features:
        """What is found if some of the store's sentences are translated again; each finds itself. Computed once."""

        def collect() -> Features:
            stored = StoredSentences(self.store)
            drawn = np.random.default_rng([seed, 3]).permutation(len(stored))[:count]
            return collect_features(self.engine, self.searcher, stored.pairs(drawn), needs)

        return self._once(("again", count, seed), needs, collect)

    def _once(self, what: tuple[str, int, int], needs: Needs, collect: Callable[[], Features]) -> Features:
        known = self._of_store.get(what)
        if known is None or not known.observation.is_enough_for(needs):
            known = self._of_store[what] = collect()
        return known

    def bleu(self, settings: Settings, combiner: Combiner, sentences: int) -> float:
        """BLEU of a combiner on the first pairs."""
        pairs, plain = self.pairs[:sentences], replace(settings, split=False)
        translator = Translator.open(self.store, combiner, settings=plain, model=self.model, searcher=self.searcher)
        translations = list(translator.translate([pair.source for pair in pairs]))
        return corpus_bleu(translations, [pair.target for pair in pairs], self.model.codec.target_lang)

    def in_store(self) -> list[bool]:
        """Whether the normalised source of each pair is in the store."""
        hashes = np.array([text_hash(pair.source) for pair in self.pairs], dtype=np.uint64)
        return [bool(found) for found in self.store.contains(hashes, "source")]
