"""The features that combiners are fitted on, and the training of their networks."""

from knnmt.training.collect import collect_features, collect_stored
from knnmt.training.features import Features, join_features, mix_features
from knnmt.training.perturbation import ClosedForm, Noise, Perturbation, Perturber
from knnmt.training.read_back import ReadBack, check_projectable
from knnmt.training.recipe import Recipe
from knnmt.training.saving import load_features, save_features
from knnmt.training.trainer import Training, Validation, train

__all__ = [
    "ClosedForm",
    "Features",
    "Noise",
    "Perturbation",
    "Perturber",
    "ReadBack",
    "Recipe",
    "Training",
    "Validation",
    "check_projectable",
    "collect_features",
    "collect_stored",
    "join_features",
    "load_features",
    "mix_features",
    "save_features",
    "train",
]
