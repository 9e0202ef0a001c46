"""Adaptive and robust kNN-MT: networks trained on cached features."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from knnmt.combiner import PARTS, PRESETS, Adaptive, Robust, Trained, Vanilla, load_combiner, read_config
from knnmt.datastore import Store
from knnmt.errors import MethodError
from knnmt.training import ClosedForm, Features, Noise, ReadBack, Recipe, Training, train
from knnmt.tuning import likelihood_grid
from knnmt.workflow.session import Session

MEDIAN = 10.0  # what the nearest neighbour's median distance is scaled to: the range the recipe was made for
LARGEST_LAYER = 4096  # hidden units: the networks are small, and the dev set too
_TEMPERATURES = (0.1, 0.2, 0.5, 1.0, 2.0)  # of adaptive, in units of the median nearest distance

# What can be left out of the robust method, named as in the paper's ablation.
TRAINING_PARTS = {
    "vector-perturbation": {"vector_perturbation": False},
    "pseudo-pairs": {"pseudo_pairs": False},
    "robust-training": {"alpha": 0.0},
    "decline": {"decline": False},
}


@dataclass(frozen=True)
class Networks:
    """Sizes and forms of the networks.

    Attributes:
        preset: hidden sizes: `released` (DC 4, the shared network 32) or `paper` (32 and 4, as printed)
        dc, wp: hidden sizes of the robust method, instead of the preset's
        hidden: hidden size of adaptive's network
        top: how many of the model's highest log p's robust looks at; K by default
        temperature: of robust, `sigmoid` or `paper`; of adaptive a number, by default that of the store's vanilla
        scale: squared distances are divided by it; by default the nearest one's median becomes 10
        without: networks of robust that are left out
    """

    preset: str = "released"
    dc: int | None = None
    wp: int | None = None
    hidden: int = 32
    top: int | None = None
    temperature: str | float | None = None
    scale: float | None = None
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise MethodError(f"There is no preset {self.preset}; choose one of {', '.join(PRESETS)}.")
        for name in ("dc", "wp", "hidden"):
            if (getattr(self, name) or 1) > LARGEST_LAYER:
                raise MethodError(f"--{name} is {getattr(self, name)}, but at most {LARGEST_LAYER:,} is possible.")

    def leaving_out(self, method: str, parts: Iterable[str], recipe: Recipe) -> "tuple[Networks, Recipe]":
        """Networks and recipe without some parts of the method."""
        parts = (parts,) if isinstance(parts, str) else tuple(dict.fromkeys(parts))
        known = (*PARTS, *TRAINING_PARTS)
        if unknown := [part for part in parts if part not in known]:
            raise MethodError(f"There is no part {unknown[0]} to leave out; choose among {', '.join(known)}.")
        if parts and method != Robust.method:
            raise MethodError(f"Only parts of {Robust.method} can be left out, not of {method}.")
        for part in parts:
            recipe = replace(recipe, **TRAINING_PARTS.get(part, {}))  # type: ignore[arg-type]
        return replace(self, without=tuple(part for part in parts if part in PARTS)), recipe


def train_combiner(
    session: Session, features: Features, method: str, k: int, networks: Networks, recipe: Recipe
) -> tuple[Trained, Training]:
    """Train the networks of a method."""
    scale = max(features.median_nearest, 1e-6) / MEDIAN
    if method == Adaptive.method and networks.temperature is None:
        networks = replace(networks, temperature=_temperature(session.store, features, k))
    combiner = make_combiner(method, k, scale, networks, recipe.seed)
    perturbed = method == Robust.method and recipe.alpha > 0 and (recipe.vector_perturbation or recipe.pseudo_pairs)
    return combiner, train(combiner, features, recipe, _noise(session, features, recipe) if perturbed else None)


def make_combiner(method: str, k: int, scale: float, networks: Networks, seed: int) -> Trained:
    """The untrained combiner; `scale` is that of the features, which an asked for one overrules."""
    scale = scale if networks.scale is None else networks.scale
    if method == Adaptive.method:
        temperature = 1.0 if networks.temperature is None else _number(networks.temperature)
        return Adaptive(k, scale, temperature, hidden=networks.hidden, seed=seed)
    if method != Robust.method:
        raise MethodError(f"knnmt does not know how to train the method {method}; train and save it yourself.")
    asked = {"dc": networks.dc, "wp": networks.wp}
    sizes = PRESETS[networks.preset] | {name: size for name, size in asked.items() if size is not None}
    form = "sigmoid" if networks.temperature is None else str(networks.temperature)
    return Robust(k, scale, top=networks.top, temperature=form, without=networks.without, seed=seed, **sizes)


def _temperature(store: Store, features: Features, k: int) -> float:
    """T of adaptive: as the store's vanilla has it, or by the likelihood of the same features."""
    fitted = [name for name in store.combiners if read_config(store, name)["method"] == Vanilla.method]
    if fitted:
        combiner = load_combiner(store, min(fitted, key=lambda name: (name != Vanilla.method, name)))
        assert isinstance(combiner, Vanilla)
        return combiner.temperature
    temperatures = [share * max(features.median_nearest, 1e-6) for share in _TEMPERATURES]
    return likelihood_grid(features, [k], temperatures=temperatures)[0].temperature


def _number(temperature: str | float) -> float:
    try:
        return float(temperature)
    except ValueError as error:
        raise MethodError(f"The temperature of adaptive kNN-MT is a number, not {temperature}.") from error


def _noise(session: Session, features: Features, recipe: Recipe) -> Noise:
    rng = np.random.default_rng([recipe.seed, 1])  # beside the trainer's own streams
    if recipe.exact_perturbation:
        return ReadBack(recipe.sigma, rng, features, session.store, session.model)
    return ClosedForm(recipe.sigma, features.dim, rng)
