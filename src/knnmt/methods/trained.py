"""The common part of methods with trained networks."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from knnmt.combiner import Needs, Trained
from knnmt.methods.method import LARGEST_K, FitTable, Fitted, Fitting, Method
from knnmt.options import option
from knnmt.training import Perturber, Recipe, Training, train

NETWORKS = "Networks"  # the heading of their options
LARGEST_LAYER = 4096  # hidden units: a dev set is too small for more
_MEDIAN = 10.0  # the median distance to the nearest neighbour after scaling; the recipe is tuned for it
_SHOWN = 8  # rows of the table of validations


@dataclass(frozen=True)
class TrainedMethod(Recipe, Method):
    """A method whose networks are trained on cached features.

    Attributes:
        k: number of neighbours
        scale: squared distances are divided by it; by default the median distance to the nearest neighbour becomes 10
    """

    k: int = option(8, "Neighbours.", minimum=1, maximum=LARGEST_K)
    scale: float | None = option(
        None, "Distances are divided by it; auto: the median nearest one becomes 10.", group=NETWORKS, above=0
    )

    @abstractmethod
    def untrained(self, scale: float) -> Trained:
        """The combiner with its initial weights."""

    def perturber(self, fitting: Fitting) -> Perturber | None:
        """What perturbs the neighbours of an update; None: nothing does."""
        return None

    def train(self, combiner: Trained, fitting: Fitting) -> Training:
        """Train the networks."""
        return train(combiner, fitting.features, self, self.perturber(fitting))

    def training_record(self) -> dict[str, Any]:
        """How it is trained, in JSON types."""
        return Recipe.to_json(self)

    def needs(self, entries: int) -> Needs:
        return self.untrained(1.0).needs

    def fit(self, fitting: Fitting) -> Fitted:
        features = fitting.features
        combiner = self.untrained(max(features.median_nearest, 1e-6) / _MEDIAN if self.scale is None else self.scale)
        combiner.prepare(features.observation)
        training = self.train(combiner, fitting)
        history = [[each.update, round(each.nll, 5), round(each.mean_lambda, 4)] for each in training.history]
        record = self.training_record() | {
            "updates_made": training.updates,
            "best_update": training.best.update,
            "interrupted": training.interrupted,
            "history": history,
        }
        return Fitted(
            combiner,
            record={"training": record},
            facts=[("seed", str(self.seed))],
            tables=[_history(training, features.base_nll)],
            interrupted=training.interrupted,
        )


def _history(training: Training, base_nll: float) -> FitTable:
    """A table of some validations, the best one included."""
    history, best = training.history, training.history.index(training.best)
    shown = sorted({round(i * (len(history) - 1) / (_SHOWN - 1)) for i in range(_SHOWN)} | {best})
    rows = [
        [f"{each.update:,}", f"{each.nll:.3f}", f"{each.mean_lambda:.2f}", f"{each.alpha:.3f}"]
        for each in (history[number] for number in shown)
    ]
    title = f"{training.updates:,} updates (nats per token; base {base_nll:.3f})"
    return FitTable(title, ["update", "NLL", "mean λ", "α"], rows, chosen=(shown.index(best), 1))
