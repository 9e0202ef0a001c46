"""Vanilla kNN-MT: K, λ and T by likelihood over the grid, then BLEU among the best few."""

from collections.abc import Sequence
from dataclasses import replace

from knnmt.combiner import Vanilla
from knnmt.decoding import Settings, Translator
from knnmt.evaluation import corpus_bleu
from knnmt.training import Features
from knnmt.tuning import Point, best_few, likelihood_grid
from knnmt.workflow.session import Session

Scored = list[tuple[Point, float]]


def tune_vanilla(
    session: Session,
    features: Features,
    ks: Sequence[int],
    decode_best: int,
    decode_sentences: int,
    settings: Settings | None,
) -> tuple[Vanilla, list[Point], Scored]:
    """The chosen combiner, the whole grid, and the places that were decoded with their BLEU."""
    grid = likelihood_grid(features, ks)
    bleu = _decode(session, best_few(grid, decode_best), decode_sentences, settings) if decode_best > 1 else []
    best = max(bleu, key=lambda scored: scored[1])[0] if bleu else grid[0]
    return best.combiner(), grid, bleu


def _decode(session: Session, points: list[Point], sentences: int, settings: Settings | None) -> Scored:
    pairs = session.pairs[:sentences]
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    settings = replace(settings or Settings(), split=False)
    scored = []
    for point in points:
        translator = Translator.open(
            session.store, point.combiner(), settings=settings, model=session.model, searcher=session.searcher
        )
        bleu = corpus_bleu(list(translator.translate(sources)), references, session.model.codec.target_lang)
        scored.append((point, bleu))
    return scored
