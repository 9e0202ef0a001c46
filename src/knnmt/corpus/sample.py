"""A few pairs of a stream, in runs of neighbouring lines, every run with the same chance."""

import random

from knnmt.corpus.pair import Pair

RUN, RUNS = 8, 8
_SEED = 1  # the same corpus gives the same sample


class Sample:
    """Keeps up to `RUNS` runs of the pairs that it is given (reservoir sampling of runs).

    Runs, because lines that have slipped by one are recognised only beside their neighbours.
    """

    def __init__(self) -> None:
        self._runs: list[list[Pair]] = []
        self._run: list[Pair] = []
        self._seen = 0
        self._random = random.Random(_SEED)

    def add(self, pair: Pair) -> None:
        self._run.append(pair)
        if len(self._run) == RUN:
            self._keep()

    def _keep(self) -> None:
        self._seen += 1
        if len(self._runs) < RUNS:
            self._runs.append(self._run)
        elif (place := int(self._random.random() * self._seen)) < RUNS:
            self._runs[place] = self._run
        self._run = []

    @property
    def pairs(self) -> list[Pair]:
        """One run behind the other; all pairs of a short stream."""
        rest = self._run if len(self._runs) < RUNS else []
        return [pair for run in self._runs for pair in run] + rest
