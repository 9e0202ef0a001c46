"""A random sample of a stream of pairs, in runs of adjacent lines."""

import random

from knnmt.corpus.pair import Pair

RUN, RUNS = 8, 8
_SEED = 1  # the same corpus gives the same sample


class Sample:
    """Keeps up to `RUNS` runs of `RUN` pairs, each run with the same chance (reservoir sampling).

    Runs, because lines that are shifted by one can be recognised only next to their neighbours.
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
        elif (index := int(self._random.random() * self._seen)) < RUNS:
            self._runs[index] = self._run
        self._run = []

    @property
    def pairs(self) -> list[Pair]:
        """The pairs of all runs; all pairs of a short stream."""
        rest = self._run if len(self._runs) < RUNS else []
        return [pair for run in self._runs for pair in run] + rest
