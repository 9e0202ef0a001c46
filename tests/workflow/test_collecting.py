"""Features and raw λ's for whoever wants to look at them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sentences import SENTENCES
from tolerances import TRUST
from worlds import quick_fit

import knnmt
from knnmt.combiner import Needs
from knnmt.datastore import Store
from knnmt.model import TranslationModel


@pytest.fixture
def dev(write_corpus: Callable[..., list[Path]]) -> list[Path]:
    return write_corpus([(f"{source} Bitte.", target) for source, target in SENTENCES[20:26]], "dev")


def test_every_token_of_a_corpus(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    features = knnmt.collect(store, dev, limit=3, model=model)
    targets = model.codec.encode_targets([target for _, target in SENTENCES[20:23]])
    assert sorted(features.lengths) == sorted(map(len, targets))
    assert features.observation.distances.shape == (sum(map(len, targets)), 8)
    assert features.observation.log_p_top.shape[1] == 8
    assert knnmt.collect(store, dev, Needs(3), model=model).observation.distances.shape[1] == 3


def test_raw_lambdas(store: Store, model: TranslationModel, dev: list[Path]) -> None:
    report = quick_fit(store.path, dev, "robust", model=model)
    robust = knnmt.load_combiner(store.path, "robust")
    assert robust is not None
    features = knnmt.collect(report.store, dev, robust.needs, model=model)
    lambdas = features.lambdas(robust)
    assert lambdas.shape == (len(features),)
    assert float(lambdas.mean()) == pytest.approx(report.mean_lambda, abs=TRUST)
    one = robust.combine(features.observation.take(slice(4, 5), robust.needs))
    torch.testing.assert_close(lambdas[4:5], one.lam.detach(), rtol=0, atol=TRUST)
