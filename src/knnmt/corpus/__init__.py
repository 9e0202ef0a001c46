"""Parallel corpora: a stream of sentence pairs, whatever files they come from."""

from knnmt.corpus.characters import has_text
from knnmt.corpus.corpus import Corpus, CorpusSummary
from knnmt.corpus.hashing import normalise, pair_hash, text_hash
from knnmt.corpus.languages import language_of
from knnmt.corpus.pair import Pair

__all__ = ["Corpus", "CorpusSummary", "Pair", "has_text", "language_of", "normalise", "pair_hash", "text_hash"]
