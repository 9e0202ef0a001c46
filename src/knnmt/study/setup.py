"""What all studies of one run have in common: the steps for stores, features, fits and translations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from knnmt.datastore.cuts import Cut
from knnmt.study.benchmark import Benchmark, Domain
from knnmt.study.lab import BaseModel
from knnmt.study.steps import Build, Collect, CollectContext, Fit, Judge, Memory, Mix, Model, System, Translate, View

VANILLA_K = 32  # the largest K that vanilla is tuned for
EVIDENCE_K = 32
METHODS = ("vanilla", "adaptive", "robust")


@dataclass(frozen=True)
class Preset:
    """Values that are given instead of tuned, by domain.

    Attributes:
        index: the kind of index of a store
        vanilla: K, λ and T of vanilla; tuned for other domains
        temperature: T of adaptive; for other domains that of vanilla
        beta: β of robust training; for other domains the method's own
        options: further options of methods, by method
    """

    name: str
    index: str = "auto"
    vanilla: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    temperature: Mapping[str, float] = field(default_factory=dict)
    beta: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Setup:
    """The benchmark, the model and the options of a run.

    Attributes:
        decoding: the signature of the settings of the beam search
        seeds: how many seeds the ablation has, by domain
        k: number of neighbours of adaptive and robust
    """

    benchmark: Benchmark
    model: BaseModel
    decoding: str
    preset: Preset
    seeds: Mapping[str, int]
    k: int = 8

    @property
    def domains(self) -> list[Domain]:
        return list(self.benchmark.domains.values())

    def store(self, domain: Domain, model: Model | None = None) -> Build:
        """The store of a domain's train set."""
        return Build(domain.name, domain.train, model or self.model, self.preset.index)

    def view(self, domain: Domain, cut: Cut) -> View:
        """A domain's store without some entries."""
        return View(self.store(domain), cut, self.preset.index)

    def fit(
        self,
        domain: Domain,
        method: str,
        *,
        memory: Memory | None = None,
        k: int | None = None,
        distances: str = "exact",
        **options: Any,
    ) -> Fit:
        """A method fitted on a domain's dev pairs.

        Args:
            memory: what is searched; by default the domain's store
            k: number of neighbours; by default 8, 32 for evidence, and vanilla tunes it
            options: further options of the method
        """
        memory = memory or self.store(domain)
        options = dict(self.preset.options.get(method, {})) | options
        if method == "vanilla":
            given = self.preset.vanilla.get(domain.name, {})
            features = Collect(memory, domain.dev, k or given.get("k", VANILLA_K), distances)
            fixed = {**given, "k": k or given["k"]} if given else {}
            return Fit(features, method, _items(options | ({"k": k} if k else {})), fixed=_items(fixed))
        k = k or (EVIDENCE_K if method == "evidence" else self.k)
        vanilla = None
        if method == "adaptive":
            if domain.name in self.preset.temperature:
                options.setdefault("temperature", self.preset.temperature[domain.name])
            else:
                vanilla = self.fit(domain, "vanilla")  # of the whole store: T is one setting, as in the paper
        if method == "robust" and domain.name in self.preset.beta:
            options.setdefault("beta", self.preset.beta[domain.name])
        collect = CollectContext if method == "evidence" else Collect
        return Fit(collect(memory, domain.dev, k, distances), method, _items(options | {"k": k}), vanilla)

    def fit_masked(self, domain: Domain, method: str, memories: Sequence[Memory]) -> Fit:
        """A method fitted on dev pairs whose neighbours are taken from several memories, to be used with the first."""
        whole = self.fit(domain, method)
        parts = tuple(Collect(memory, domain.dev, whole.features.k) for memory in memories)
        return replace(whole, features=Mix(parts))

    def system(
        self,
        name: str,
        test: Domain,
        fit: Fit | None = None,
        memory: Memory | None = None,
        model: Model | None = None,
    ) -> System:
        """A domain's test set translated by the model alone, or with a fitted combiner.

        Args:
            memory: what is searched; by default what the combiner was fitted on
            model: by default that of the memory, or the one under study
        """
        if fit is None:
            return System.of(name, Translate(model or self.model, test.test, self.decoding))
        memory = memory or fit.memory
        distances = fit.features.distances
        return System.of(name, Translate(memory.model, test.test, self.decoding, memory, fit, distances))

    def judge(self, test: Domain, fit: Fit, memory: Memory | None = None) -> Judge:
        """NLL and λ of a fitted combiner on a domain's test set."""
        collect = type(fit.features) if isinstance(fit.features, Collect) else Collect
        return Judge(collect(memory or fit.memory, test.test, fit.features.k, fit.features.distances), fit)


def _items(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(options.items()))
