"""Explain a translation token by token, with one teacher-forced pass over it; the same for every engine."""

from typing import Any

import torch
from torch import Tensor

from knnmt.decoding.reasons import reasons
from knnmt.decoding.translation import Translation
from knnmt.decoding.translator import Translator
from knnmt.memory import Mixture, past_of_targets
from knnmt.model import Logits

_TOP = 5  # how many tokens are shown for the model, and for the neighbours


@torch.inference_mode()
def explain(translator: Translator, translation: Translation | str) -> dict[str, Any]:
    """Every token of a translation, with λ, the choices of the model and of the neighbours, and their sentences.

    Args:
        translation: a result of the translator, or a line to translate first

    Example:
        knnmt.explain(knnmt.Translator.open("memory"), "Starten Sie den Dienst neu.")
    """
    if isinstance(translation, str):
        (translation,) = translator.translations([translation])
    answer: dict[str, Any] = {"source": translation.source, "translation": translation.text, "tokens": []}
    if translation.n_best:
        answer["n_best"] = [{"translation": text, "score": score} for text, score in translation.n_best]
    engine, memory = translator.engine, translator.memory
    for sentence in translation.sentences:
        states = engine.teacher_forced([sentence.source], [sentence.target])
        so_far = past_of_targets(states.tokens, states.lengths)
        recall = memory.begin([sentence.source]) if memory else None
        for start in range(0, len(states.tokens), engine.chunk_rows):
            rows = slice(start, start + engine.chunk_rows)  # never a whole line × vocabulary at once
            logits, tokens = engine.project(states.hidden[rows]), states.tokens[rows]
            explained = _explain_model(translator, logits, tokens)
            if recall is not None:
                mixture = recall.follow(states.keys[rows], logits, so_far[rows])
                _add_neighbours(explained, translator, mixture, tokens, logits, so_far[rows])
            answer["tokens"] += explained
    return answer


def _explain_model(translator: Translator, logits: Logits, tokens: Tensor) -> list[dict[str, Any]]:
    """The model's own choices for each row."""
    piece = translator.model.codec.piece
    top, top_tokens = logits.highest(_TOP)
    p_nmt = logits.log_p(tokens[:, None]).squeeze(1).exp().tolist()
    rows: list[dict[str, Any]] = []
    for i, token in enumerate(tokens.tolist()):
        best = zip(top_tokens[i].tolist(), top[i].exp().tolist(), strict=True)
        rows.append(
            {
                "token": piece(token),
                "lambda": 0.0,
                "p": p_nmt[i],
                "p_nmt": p_nmt[i],
                "p_knn": None,
                "temperature": None,
                "nmt_top": [{"token": piece(index), "p": value} for index, value in best],
                "knn_top": [],
                "neighbours": [],
            }
        )
    return rows


def _add_neighbours(
    rows: list[dict[str, Any]],
    translator: Translator,
    mixture: Mixture,
    tokens: Tensor,
    logits: Logits,
    so_far: Tensor,
) -> None:
    assert translator.memory is not None
    contributions = translator.memory.combiner.contributions(mixture.observation)
    values, trust = mixture.observation.values, mixture.combination
    p = mixture.log_p(tokens[:, None], logits.log_p(tokens[:, None])).exp().squeeze(1).tolist()
    p_knn = mixture.p_knn(tokens[:, None]).squeeze(1).tolist()
    votes = mixture.p_knn(values)
    for i, row in enumerate(rows):
        row["lambda"] = float(trust.lam[i])
        row["p"], row["p_knn"] = p[i], p_knn[i]
        row["temperature"] = float(trust.temperature[i])
        row["knn_top"] = _votes(translator, values[i], votes[i])
        row["neighbours"] = _neighbours(translator, mixture, i, so_far)
        for k, neighbour in enumerate(row["neighbours"]):
            neighbour["contributions"] = {kind: float(each[i, k]) for kind, each in contributions.items()}


def _votes(translator: Translator, values: Tensor, shares: Tensor) -> list[dict[str, Any]]:
    """The neighbours' distinct tokens, those with the most votes first."""
    piece = translator.model.codec.piece
    votes = sorted(dict(zip(values.tolist(), shares.tolist(), strict=True)).items(), key=lambda vote: -vote[1])
    return [{"token": piece(value), "p": share} for value, share in votes[:_TOP] if share > 0]


def _neighbours(translator: Translator, mixture: Mixture, row: int, so_far: Tensor) -> list[dict[str, Any]]:
    codec = translator.model.codec
    seen, trust = mixture.observation, mixture.combination
    ids = seen.ids[row].cpu().numpy()
    assert translator.memory is not None
    found = translator.memory.searcher.store.provenance(ids[ids >= 0])
    return [
        {
            "token": codec.piece(int(seen.values[row, k])),
            "distance": float(seen.distances[row, k]),
            "confidence": float(seen.log_confidence[row, k].exp()),
            "weight": float(trust.weights[row, k]),
            "c": float(trust.c[row, k]),
            "reasons": reasons(codec, seen, row, k, so_far),
            "source": each.source,
            "target": each.target,
            "origin": each.origin,
            "line": each.line,
            "position": each.position,
        }
        for k, each in enumerate(found)
    ]
