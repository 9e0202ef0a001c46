"""The step that fits a method."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from knnmt.combiner import Combiner
from knnmt.methods import Method, method_with, methods, read_combiner
from knnmt.study.lab import Lab
from knnmt.study.step import Estimate, Result, Step
from knnmt.study.steps.features import Collect, Mix
from knnmt.study.steps.memories import Memory
from knnmt.workflow import fit_method

_COMBINER = "combiner"


@dataclass(frozen=True)
class Fit(Step):
    """A combiner, fitted on the features of dev pairs.

    Attributes:
        options: options of the method, by name
        vanilla: adaptive takes T from it
        fixed: the combiner's own options, if it is not fitted but given
    """

    kind: ClassVar[str] = "fit"
    seconds_per_unit: ClassVar[float] = 80.0

    features: Collect | Mix
    method: str
    options: tuple[tuple[str, Any], ...] = ()
    vanilla: "Fit | None" = None
    fixed: tuple[tuple[str, Any], ...] = ()

    @property
    def title(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.options)
        return f"Fit {self.method} on {self.features.split.name}{f' ({shown})' if shown else ''}"

    @property
    def seed(self) -> int:
        """Of initial weights, batches and perturbation."""
        return int(dict(self.options).get("seed", methods()[self.method].seed))

    @property
    def memory(self) -> Memory:
        return self.features.memory

    def estimate(self) -> Estimate:
        return Estimate(0.001 if self.fixed else 1.0, disk=1e5, memory=1e9 + 4 * self.features.size)

    def is_there(self, lab: Lab) -> bool:
        return (lab.work.directory(self) / _COMBINER).is_dir()

    def load(self, lab: Lab) -> Combiner:
        return read_combiner(lab.work.directory(self) / _COMBINER)

    def run(self, lab: Lab) -> Result:
        features, distances = self.features.load(lab), self.features.distances
        if self.fixed:
            combiner = self._method(lab).combiner.from_options(dict(self.fixed))
            combiner.record = {"nll": features.judge(combiner)[0]}
        else:
            session = lab.session(self.memory, self.features.split, features, distances)
            fitted = fit_method(self._method(lab), session, replace(lab.settings, split=False))
            if fitted.interrupted:
                raise KeyboardInterrupt
            combiner = fitted.combiner
        directory = lab.work.directory(self) / _COMBINER
        directory.mkdir(parents=True, exist_ok=True)
        combiner.save(directory)
        return {
            "method": self.method,
            "options": combiner.options(),
            "signature": combiner.signature,
            "nll": combiner.record["nll"],
            "base_nll": features.base_nll,
        }

    def _method(self, lab: Lab) -> Method:
        options = dict(self.options)
        if self.vanilla is not None:
            options.setdefault("temperature", lab.result(self.vanilla)["options"]["temperature"])
        return method_with(self.method, options)
