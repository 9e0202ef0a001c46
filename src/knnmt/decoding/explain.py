"""Why a translation is what it is: one teacher-forced pass over it, the same for every engine."""

from typing import Any

import torch
from torch import Tensor

from knnmt.combiner import Combination, Observation, log_p_knn, mixture_log_p, observe
from knnmt.decoding.memory import Memory
from knnmt.decoding.translator import Translation, Translator
from knnmt.search import Neighbours

_TOP = 5  # choices shown of the model, and of the neighbours


@torch.inference_mode()
def explain(translator: Translator, translation: Translation) -> dict[str, Any]:
    """Every token of a translation with λ, the model's and the neighbours' choices, and where they come from."""
    answer: dict[str, Any] = {"source": translation.source, "translation": translation.text, "tokens": []}
    if translation.n_best:
        answer["n_best"] = [{"translation": text, "score": score} for text, score in translation.n_best]
    model = translator.model
    for sentence in translation.sentences:
        states = model.teacher_forced([sentence.source], [sentence.target])
        for start in range(0, len(states.tokens), model.chunk_rows):
            rows = slice(start, start + model.chunk_rows)  # never a whole line × vocabulary at once
            answer["tokens"] += _rows(translator, states.keys[rows], states.hidden[rows], states.tokens[rows])
    return answer


def _rows(translator: Translator, keys: Tensor, hidden: Tensor, tokens: Tensor) -> list[dict[str, Any]]:
    names = translator.model.codec.piece
    logits = translator.model.logits(hidden).float()
    log_p = logits.log_softmax(1)
    gold = log_p.gather(1, tokens[:, None]).squeeze(1)
    top = log_p.topk(_TOP, dim=1)
    rows: list[dict[str, Any]] = []
    for i, token in enumerate(tokens.tolist()):
        best = zip(top.indices[i].tolist(), top.values[i].exp().tolist(), strict=True)
        p = float(gold[i].exp())
        rows.append(
            {
                "token": names(token),
                "lambda": 0.0,
                "p": p,
                "p_nmt": p,
                "p_knn": None,
                "temperature": None,
                "nmt_top": [{"token": names(index), "p": value} for index, value in best],
                "knn_top": [],
                "neighbours": [],
            }
        )
    if (memory := translator.engine.memory) is not None:
        _add_neighbours(rows, translator, memory, memory.find(keys, top.values), tokens, logits, gold)
    return rows


def _add_neighbours(
    rows: list[dict[str, Any]],
    translator: Translator,
    memory: Memory,
    found: Neighbours,
    tokens: Tensor,
    logits: Tensor,
    gold: Tensor,
) -> None:
    seen = observe(found, logits, logits.logsumexp(1), memory.combiner.needs.top)
    combination = memory.combiner.combine(seen)
    p = mixture_log_p(combination, seen.values, tokens, gold).exp().tolist()
    p_knn = (combination.weights * (seen.values == tokens[:, None])).sum(1).tolist()
    shares = log_p_knn(seen.values, seen.values, combination.log_weights).exp()
    for i, row in enumerate(rows):
        row["lambda"] = float(combination.lam[i])
        row["p"], row["p_knn"] = p[i], p_knn[i]
        row["temperature"] = float(combination.temperature[i])
        row["knn_top"] = _votes(translator, seen.values[i], shares[i])
        row["neighbours"] = _neighbours(translator, found, seen, combination, i)


def _votes(translator: Translator, values: Tensor, shares: Tensor) -> list[dict[str, Any]]:
    """The neighbours' distinct tokens, most voted first."""
    names = translator.model.codec.piece
    votes = sorted(dict(zip(values.tolist(), shares.tolist(), strict=True)).items(), key=lambda vote: -vote[1])
    return [{"token": names(value), "p": share} for value, share in votes[:_TOP] if share > 0]


def _neighbours(
    translator: Translator, found: Neighbours, seen: Observation, combination: Combination, row: int
) -> list[dict[str, Any]]:
    names = translator.model.codec.piece
    exists = found.ids[row] >= 0
    places = translator.store.provenance(found.ids[row][exists])
    return [
        {
            "token": names(int(found.values[row, k])),
            "distance": float(found.distances[row, k]),
            "confidence": float(seen.log_confidence[row, k].exp()),
            "weight": float(combination.weights[row, k]),
            "c": float(combination.c[row, k]),
            "source": place.source,
            "target": place.target,
            "origin": place.origin,
            "line": place.line,
            "position": place.position,
        }
        for k, place in enumerate(places)
    ]
