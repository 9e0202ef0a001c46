"""The choice of what is not trained."""

from knnmt.tuning.vanilla import KS, Point, best_few, likelihood_grid

__all__ = ["KS", "Point", "best_few", "likelihood_grid"]
