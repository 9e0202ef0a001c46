"""Evaluation: BLEU, chrF, significance and COMET of translations, and λ by model confidence."""

from knnmt.evaluation.comet import comet_scores, find_comet
from knnmt.evaluation.curves import LambdaPoint, lambda_curve
from knnmt.evaluation.metrics import PValues, Scores, SystemScore, corpus_bleu, score_systems, sentence_chrf
from knnmt.evaluation.resampling import bleu_covariance
from knnmt.evaluation.token_accuracy import accuracy

__all__ = [
    "LambdaPoint",
    "PValues",
    "Scores",
    "SystemScore",
    "accuracy",
    "bleu_covariance",
    "comet_scores",
    "corpus_bleu",
    "find_comet",
    "lambda_curve",
    "score_systems",
    "sentence_chrf",
]
