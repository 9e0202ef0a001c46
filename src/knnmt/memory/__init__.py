"""The memory of a model: search, observation, combination and mixture."""

from knnmt.memory.context import LONGEST_PAST, matching_past, past_of_sequences, past_of_targets
from knnmt.memory.memory import Memory, Recall
from knnmt.memory.mixture import Mixture
from knnmt.memory.observer import Observer

__all__ = [
    "LONGEST_PAST",
    "Memory",
    "Mixture",
    "Observer",
    "Recall",
    "matching_past",
    "past_of_sequences",
    "past_of_targets",
]
