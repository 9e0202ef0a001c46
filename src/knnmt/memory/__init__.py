"""The memory of a model: search, observation, combination and mixture."""

from knnmt.memory.context import LONGEST_PAST, UNKNOWN_TOKEN, Place, past_of_targets
from knnmt.memory.memory import Memory, Recall
from knnmt.memory.mixture import Mixture
from knnmt.memory.observer import Observer
from knnmt.memory.passes import Passes
from knnmt.memory.similarity import Query

__all__ = [
    "LONGEST_PAST",
    "UNKNOWN_TOKEN",
    "Memory",
    "Mixture",
    "Observer",
    "Passes",
    "Place",
    "Query",
    "Recall",
    "past_of_targets",
]
