"""`--exact-perturbation`: noise on the keys themselves, and the model's probabilities for the noisy keys."""

import numpy as np
import torch
from torch import Tensor

from knnmt.datastore import Store
from knnmt.errors import MethodError
from knnmt.model import Engine
from knnmt.training.features import Features
from knnmt.training.perturbation import Batch


def check_projectable(key_layer: str) -> None:
    """Raise `MethodError` unless keys are the input of the output projection."""
    if key_layer != "output":
        raise MethodError(
            f"The store's keys are of the layer {key_layer}, which cannot be projected on the vocabulary; "
            "leave out --exact-perturbation."
        )


class ReadBack:
    """Reads the retrieved keys from the store, adds noise, and projects them on the vocabulary, in chunks.

    The method of the paper's released code. It costs K output projections per position; use it to check `ClosedForm`.
    """

    def __init__(
        self, sigma: float, rng: np.random.Generator, features: Features, store: Store, engine: Engine
    ) -> None:
        check_projectable(engine.model.key_layer)
        assert features.queries is not None
        self.sigma, self.rng = sigma, rng
        self.queries = features.queries
        self.store, self.engine = store, engine

    def on_keys(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        rows = batch.rows[at]
        ids = batch.seen.ids[at]
        keys = self._noisy(torch.from_numpy(self.store.entries.keys(ids.numpy())).float())  # [at, K, dim]
        distances = ((keys - self.queries[rows][:, None]) ** 2).sum(2)
        log_p = self._log_p(keys.flatten(0, 1), batch.seen.values[at].flatten()).view_as(distances)
        missing = ids < 0
        return (
            distances.masked_fill(missing, torch.inf),
            torch.where(missing, batch.seen.log_confidence[at], log_p),
        )

    def on_queries(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        queries = self.queries[batch.rows[at]]
        keys = self._noisy(queries)
        return ((keys - queries) ** 2).sum(1), self._log_p(keys, batch.tokens[at])

    def _noisy(self, keys: Tensor) -> Tensor:
        noise = self.rng.standard_normal(tuple(keys.shape), dtype=np.float32)
        return keys + self.sigma * torch.from_numpy(noise)

    @torch.inference_mode()
    def _log_p(self, keys: Tensor, tokens: Tensor) -> Tensor:
        weight = self.engine.model.tap.projection.weight
        device, dtype, rows = weight.device, weight.dtype, self.engine.chunk_rows
        chunks = zip(torch.split(keys, rows), torch.split(tokens, rows), strict=True)
        return torch.cat(
            [
                self.engine.token_log_p(part_keys.to(device, dtype), part_tokens.to(device)).cpu()
                for part_keys, part_tokens in chunks
            ]
        )
