"""How good translations are: BLEU, chrF, significance and COMET."""

from knnmt.evaluation.comet import comet_scores, find_comet
from knnmt.evaluation.metrics import PValues, Scores, SystemScore, corpus_bleu, score_systems, sentence_chrf

__all__ = [
    "PValues",
    "Scores",
    "SystemScore",
    "comet_scores",
    "corpus_bleu",
    "find_comet",
    "score_systems",
    "sentence_chrf",
]
