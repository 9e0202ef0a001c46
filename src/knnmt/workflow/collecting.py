"""Collect the features of a corpus: what model and search find at every token, to fit and judge combiners."""

from collections.abc import Sequence
from pathlib import Path

from knnmt.combiner import Needs
from knnmt.datastore import Store
from knnmt.model import TranslationModel
from knnmt.training import Features
from knnmt.workflow.session import Session


def collect(
    store: Store | str | Path,
    corpus: Sequence[str | Path] | str | Path,
    needs: Needs | None = None,
    *,
    limit: int | None = None,
    model: TranslationModel | str | None = None,
    device: str = "auto",
) -> Features:
    """Pass a corpus through the model with teacher forcing, and search the store at every token.

    Args:
        store: a store or its directory
        corpus: files; plain text in pairs, source first
        needs: what to collect; by default 8 neighbours and the model's 8 highest log p's
        limit: use only the first `limit` lines

    Example:
        robust = knnmt.load_combiner("memory", "robust")
        features = knnmt.collect("memory", ["test.de", "test.en"], robust.needs)
        features.lambdas(robust)            # λ at every token  # [tokens]
        features.observation.distances      # squared, of the neighbours  # [tokens, K]
    """
    return Session.open(store, corpus, limit=limit, model=model, device=device).features(needs or Needs(8, top=8))
