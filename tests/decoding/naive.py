"""An independent beam search: no cache, no hooks, dense distributions, one hypothesis at a time."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from knnmt.datastore import Store
from knnmt.model import TranslationModel


@dataclass
class Dense:
    """The next token's distribution given a prefix, with vanilla kNN in loops over the whole store if there is one."""

    model: TranslationModel
    store: Store | None = None
    k: int = 4
    lam: float = 0.5
    temperature: float = 10.0

    def __post_init__(self) -> None:
        if self.store is not None:
            self.keys = np.concatenate([segment.keys for segment in self.store.segments]).astype(np.float64)
            self.values = np.concatenate([segment.values for segment in self.store.segments])
        self.neighbours: set[int] = set()

    def log_p(self, source: list[int], tokens: list[int]) -> np.ndarray:
        states = []
        hook = self.model.tap.projection.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0][0, -1]))
        with torch.inference_mode():
            logits = self.model.hf(
                input_ids=torch.tensor([source]),
                decoder_input_ids=torch.tensor([[*self.model.codec.prefix, *tokens]]),
                use_cache=False,
            ).logits[0, -1]
        hook.remove()
        p = np.exp(logits.double().numpy() - logits.max().item())
        p /= p.sum()
        if self.store is not None:
            distances = ((self.keys - states[0].double().numpy()) ** 2).sum(1)
            nearest = np.argsort(distances, kind="stable")[: self.k]
            self.neighbours |= set(nearest.tolist())
            weights = np.exp(-(distances[nearest] - distances[nearest].min()) / self.temperature)
            p = (1 - self.lam) * p
            for index, weight in zip(nearest, weights / weights.sum(), strict=True):
                p[self.values[index]] += self.lam * weight
        with np.errstate(divide="ignore"):
            log_p = np.log(p)
        return self._processed(log_p, tokens)

    def _processed(self, log_p: np.ndarray, tokens: list[int]) -> np.ndarray:
        """Banned tokens and renormalisation, as the model's generation config asks for them."""
        config = self.model.hf.generation_config
        for banned in config.bad_words_ids or []:
            assert len(banned) == 1
            log_p[banned[0]] = -np.inf
        size = config.no_repeat_ngram_size or 0
        history = [*self.model.codec.prefix, *tokens]
        if size and len(history) + 1 >= size:
            for start in range(len(history) - size + 1):
                if history[start : start + size - 1] == history[len(history) - size + 1 :]:
                    log_p[history[start + size - 1]] = -np.inf
        if config.renormalize_logits:
            log_p = log_p - math.log(np.exp(log_p).sum())
        return log_p


def beam_search(
    dense: Dense, source: list[int], beam: int, length_penalty: float, cap: int
) -> list[tuple[list[int], float]]:
    """The finished hypotheses, best first: the rules of transformers' beam search with early_stopping=False."""
    codec = dense.model.codec
    forced_end = dense.model.hf.generation_config.forced_eos_token_id is not None
    given = len(codec.prefix) - 1  # a forced language counts as a generated token
    running: list[tuple[list[int], float]] = [([], 0.0)]
    finished: list[tuple[list[int], float]] = []
    for length in range(1, cap + 1):
        candidates = []
        for tokens, score in running:
            if forced_end and length == cap:
                candidates.append(([*tokens, codec.eos], score))
                continue
            log_p = dense.log_p(source, tokens)
            best = [int(token) for token in np.argsort(-log_p)[: 2 * beam] if np.isfinite(log_p[token])]
            candidates += [([*tokens, token], score + float(log_p[token])) for token in best]
        candidates = sorted(candidates, key=lambda candidate: -candidate[1])[: 2 * beam]
        norm = (length + given) ** length_penalty
        for rank, (tokens, score) in enumerate(candidates):
            if rank < beam and (tokens[-1] == codec.eos or length == cap):
                finished.append((tokens, score / norm))
        finished = sorted(finished, key=lambda hypothesis: -hypothesis[1])[:beam]
        running = [candidate for candidate in candidates if candidate[0][-1] != codec.eos][:beam]
        if not running or (len(finished) == beam and running[0][1] / norm <= finished[-1][1]):
            break
    return finished
