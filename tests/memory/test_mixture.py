"""The mixture of some rows against dense distributions."""

import numpy as np
import pytest
import torch
from tolerances import SHARE
from worlds import observed

from knnmt.memory import Mixture
from knnmt.methods import Vanilla
from knnmt.model import Logits

ROWS, K, VOCABULARY = 12, 4, 30
LAM, TEMPERATURE = 0.4, 5.0


@pytest.fixture
def logits() -> Logits:
    return Logits(2 * torch.randn(ROWS, VOCABULARY, generator=torch.Generator().manual_seed(1)))


@pytest.fixture
def mixture(logits: Logits) -> Mixture:
    generator = torch.Generator().manual_seed(2)
    distances = (20 * torch.rand(ROWS, K, generator=generator)).sort(1).values
    distances[::4, 2:] = torch.inf
    values = torch.randint(0, 5, (ROWS, K), generator=generator)  # several of one token
    seen = observed(distances, values, torch.zeros(ROWS, K), logits.log_p(values), torch.zeros(ROWS, 0))
    return Mixture(seen, Vanilla(K, LAM, TEMPERATURE).combine(seen))


def dense(mixture: Mixture, logits: Logits) -> tuple[np.ndarray, np.ndarray]:
    """p and p_kNN of the whole vocabulary, in loops."""
    p_knn = np.zeros((ROWS, VOCABULARY))
    for row in range(ROWS):
        weights = np.exp(-mixture.observation.distances[row].double().numpy() / TEMPERATURE)
        for value, weight in zip(mixture.observation.values[row].tolist(), weights / weights.sum(), strict=True):
            p_knn[row, value] += weight
    return LAM * p_knn + (1 - LAM) * logits.values.double().softmax(1).numpy(), p_knn


def test_every_token(mixture: Mixture, logits: Logits) -> None:
    p, p_knn = dense(mixture, logits)
    tokens = torch.arange(VOCABULARY).expand(ROWS, -1)
    np.testing.assert_allclose(mixture.log_p(tokens, logits.log_p(tokens)).exp(), p, atol=SHARE)
    np.testing.assert_allclose(mixture.p_knn(tokens), p_knn, atol=SHARE)
    one = mixture.log_p(tokens[:, 3], logits.log_p(tokens)[:, 3])
    np.testing.assert_allclose(one.exp(), p[:, 3], atol=SHARE)


def test_written_into_logits(mixture: Mixture, logits: Logits) -> None:
    p, _ = dense(mixture, logits)
    mixture.mix_into(logits)
    np.testing.assert_allclose(logits.values.softmax(1), p, atol=SHARE)
    with pytest.raises(ValueError, match="whole vocabulary"):
        mixture.mix_into(Logits(logits.values, torch.arange(VOCABULARY)))
