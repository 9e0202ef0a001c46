"""Collect features: one search and one output projection per position, for dev pairs or stored sentences."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knnmt.combiner import LOG_ZERO, Needs, Observation
from knnmt.corpus import Pair
from knnmt.datastore import Ids, Store, StoredSentences
from knnmt.errors import CorpusError
from knnmt.memory import Observer, Query
from knnmt.model import Engine, States, TranslationModel
from knnmt.progress import progress
from knnmt.search import Exclude, Searcher
from knnmt.training.features import Features

_STORED_ROWS = 4096  # stored keys searched at once

Leave = Callable[[Ids], Exclude]  # sentence numbers, one per row → the `exclude` of their search


def collect_features(
    engine: Engine,
    searcher: Searcher,
    pairs: Sequence[Pair],
    needs: Needs,
    *,
    keep_queries: bool = False,
    leave: Leave | None = None,
) -> Features:
    """Run pairs through the model and the search once.

    Args:
        keep_queries: also keep the queries
        leave: returns the `exclude` of a search, given each row's index in `pairs`
    """
    codec = engine.model.codec
    sources = codec.encode_sources([pair.source for pair in pairs])
    targets = codec.encode_targets([pair.target for pair in pairs])
    limit = codec.max_length
    kept = [i for i in range(len(pairs)) if max(len(sources[i]), len(targets[i])) <= limit]
    if not kept:
        raise CorpusError(f"Every sentence of the corpus is longer than the model's {limit} tokens; give shorter ones.")
    batches = engine.batches([sources[i] for i in kept], [targets[i] for i in kept])
    indices = np.array(kept)
    leave_kept = None if leave is None else lambda sentences: leave(indices[sentences])
    observer = Observer(searcher, needs)

    def query_of(sentences: Ids) -> Query | None:
        return observer.query([sources[i] for i in indices[sentences].tolist()])

    return _collect(engine, observer, batches, query_of, len(kept), keep_queries, leave_kept, len(pairs) - len(kept))


def collect_stored(
    engine: Engine,
    searcher: Searcher,
    sentences: int,
    needs: Needs,
    *,
    seed: int = 1,
    keep_queries: bool = False,
) -> Features:
    """Features of sentences sampled from the store, as if they, and sentences with the same text, were not in it.

    Each search leaves out all stored sentences with the same normalised source or target. The queries are the stored
    keys. If keys are the input of the output projection, p_NMT is one projection of them; otherwise the model is run.
    """
    stored = StoredSentences(searcher.store)
    drawn = np.random.default_rng(seed).permutation(len(stored))[:sentences]
    if engine.model.key_layer != "output":
        pairs = stored.pairs(drawn)
        leave = _leave_same_texts(stored)
        return collect_features(
            engine, searcher, pairs, needs, keep_queries=keep_queries, leave=lambda indices: leave(drawn[indices])
        )
    batches = _stored_states(engine.model, searcher.store, stored, drawn)
    observer = Observer(searcher, needs)

    def query_of(sentences: Ids) -> Query | None:
        return observer.query(stored.source_vectors(sentences)) if "source" in needs.context else None

    return _collect(engine, observer, batches, query_of, len(drawn), keep_queries, _leave_same_texts(stored))


def _leave_same_texts(stored: StoredSentences) -> Leave:
    sources, targets = stored.hashes("source"), stored.hashes("target")

    def leave(own: Ids) -> Exclude:
        def exclude(ids: Ids, rows: Ids) -> NDArray[np.bool_]:
            theirs, mine = stored.of(ids), own[rows][:, None]
            same: NDArray[np.bool_] = (sources[theirs] == sources[mine]) | (targets[theirs] == targets[mine])
            return same

        return exclude

    return leave


def _stored_states(model: TranslationModel, store: Store, stored: StoredSentences, drawn: Ids) -> Iterator[States]:
    """The stored keys of the drawn sentences as model states, in batches of whole sentences."""
    ids, lengths = stored.ids(drawn)
    ends = np.cumsum(lengths)
    batch = (ends - 1) // _STORED_ROWS
    for number in np.unique(batch):
        of_batch = np.flatnonzero(batch == number)
        rows = ids[ends[of_batch[0]] - lengths[of_batch[0]] : ends[of_batch[-1]]]
        keys = torch.from_numpy(store.entries.keys(rows)).to(model.device, model.tap.projection.weight.dtype)
        tokens = torch.from_numpy(store.entries.values(rows)).to(model.device, torch.int64)
        yield States(drawn[of_batch], lengths[of_batch], keys, keys, tokens)


@torch.inference_mode()
def _collect(
    engine: Engine,
    observer: Observer,
    batches: Iterable[States],
    query_of: Callable[[Ids], Query | None],
    sentences: int,
    keep_queries: bool,
    leave: Leave | None,
    skipped: int = 0,
) -> Features:
    """Search and observe every position. Tensors of the vocabulary's size exist only for one chunk at a time.

    Args:
        query_of: the prepared sources of sentences, for the context
    """
    observations: list[Observation] = []
    columns: list[tuple[Tensor, ...]] = []  # tokens, log_p, log_p_sum
    asked: list[Tensor] = []
    lengths = []
    with progress("Searching for every token's neighbours", total=sentences, unit="tokens") as meter:
        for states in batches:
            exclude = None if leave is None else leave(np.repeat(states.sentences, states.lengths))
            found = observer.find(states.keys, exclude)
            query = query_of(states.sentences)
            context = observer.context_of_targets(found, states.tokens, states.lengths, query)
            if keep_queries:
                asked.append(states.keys.float().cpu())
            for start in range(0, len(states.tokens), engine.chunk_rows):
                rows = slice(start, start + engine.chunk_rows)
                logits = engine.project(states.hidden[rows])
                here = {name: column[rows] for name, column in context.items()}
                seen = observer.observe(found[rows], logits, here)
                observations.append(seen.cpu())
                tokens = states.tokens[rows]
                gold = logits.log_p(tokens[:, None]).squeeze(1).clamp_min(LOG_ZERO)
                columns.append((tokens.cpu(), gold.cpu(), logits.log_p_sum(LOG_ZERO).cpu()))
            lengths.append(states.lengths)
            meter.advance(len(states.sentences), units=len(states.tokens))
    tokens, gold, total = map(torch.cat, zip(*columns, strict=True))
    return Features(
        observation=Observation.concatenate(observations),
        tokens=tokens,
        log_p=gold,
        log_p_sum=total,
        lengths=np.concatenate(lengths),
        vocabulary=engine.model.vocab_size,
        dim=engine.model.dim,
        skipped=skipped,
        queries=torch.cat(asked) if asked else None,
    )
