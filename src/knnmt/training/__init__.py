"""What combiners are fitted from."""

from knnmt.training.features import Features, collect_features, take

__all__ = ["Features", "collect_features", "take"]
