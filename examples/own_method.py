"""A method of your own, outside the package: a neighbour counts more if the words before it are the same, too.

This file is the `knnmt` command with one more method:

    python examples/own_method.py fit memory dev.de dev.en --method phrases --bonus 2
    python examples/own_method.py evaluate memory test.de test.en --methods base,phrases
    python examples/own_method.py translate memory --method phrases < manual.de

A package does not need the last lines. It names the class in its pyproject.toml, and `knnmt` knows the method:

    [project.entry-points."knnmt.methods"]
    phrases = "my_package:PhrasesMethod"
"""

from dataclasses import dataclass
from typing import Any, Self

import torch

from knnmt.cli.main import run
from knnmt.combiner import Combination, Combiner, Needs, Observation, log_shares
from knnmt.methods import Fitted, Fitting, Method, register
from knnmt.options import option

LONGEST = 4  # words that count


class Phrases(Combiner):
    """p_kNN ∝ Σ exp(−d_k / T + bonus · m_k), m_k being how many of the last words are those before neighbour k."""

    method = "phrases"

    def __init__(self, k: int, lam: float, temperature: float, bonus: float) -> None:
        super().__init__(Needs(k, context=frozenset({"prefix"})))
        self.lam, self.temperature, self.bonus = lam, temperature, bonus

    def combine(self, seen: Observation) -> Combination:
        assert seen.matching_past is not None  # it was asked for
        past = seen.matching_past.clamp_max(LONGEST)
        odds = torch.full_like(seen.distances[:, 0], self.lam).logit()
        return Combination(
            log_weights=log_shares(self.bonus * past - seen.distances / self.temperature, seen.exists),
            log_odds=odds.where(seen.exists[:, 0], -torch.inf),
            temperature=torch.full_like(odds, self.temperature),
            c=self.bonus * past,
        )

    def options(self) -> dict[str, Any]:
        return {"k": self.k, "lam": self.lam, "temperature": self.temperature, "bonus": self.bonus}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        return cls(**options)


@register
@dataclass(frozen=True)
class PhrasesMethod(Method):
    """λ and T are tuned; neighbours in the same phrase count more."""

    name = "phrases"
    combiner = Phrases

    k: int = option(16, "Neighbours.", minimum=1)
    bonus: float = option(1.0, "What each matching word before a neighbour adds to its score.", minimum=0)

    def needs(self, entries: int) -> Needs:
        return Needs(min(self.k, entries), context=frozenset({"prefix"}))

    def fit(self, fitting: Fitting) -> Fitted:
        features = fitting.features
        grid = [
            Phrases(features.k, lam, share * features.median_nearest, self.bonus)
            for lam in (0.2, 0.4, 0.6, 0.8)
            for share in (0.2, 1.0, 5.0)
        ]
        losses = [features.judge(each)[0] for each in grid]
        return Fitted(grid[losses.index(min(losses))], findings={"losses": losses})


if __name__ == "__main__":
    run()
