"""What each part of robust kNN-MT is worth: Table 6 of the paper."""

from collections.abc import Iterator
from math import hypot
from statistics import fmean, stdev
from typing import Any

from knnmt.report import Cell, Claim, Section, Table, number, row
from knnmt.study import paper
from knnmt.study.benchmark import Domain
from knnmt.study.setup import Setup
from knnmt.study.step import Result, Step
from knnmt.study.steps import Compare, Fit, System
from knnmt.study.studies.figures import all_held, over_seeds, processors_note, sentences_note
from knnmt.study.studies.study import DomainStudy, Results

ROWS = {
    "vanilla": "vanilla",
    "adaptive": "adaptive",
    "": "robust",
    "wp": "w/o WP network",
    "dc": "w/o DC network",
    "vector-perturbation": "w/o vector perturbation",
    "pseudo-pairs": "w/o pseudo pairs",
    "robust-training": "w/o robust training",
    "decline": "w/o decline of the ratio",
}
_PARTS = [name for name in ROWS if name not in ("vanilla", "adaptive", "")]


class Ablation(DomainStudy):
    name = "ablation"
    title = "What is each part of robust kNN-MT worth?"
    about = (
        "Table 6 of the paper. Each row leaves out a network or a part of the training; every row is trained with "
        "several seeds. The deviation is that between seeds."
    )

    def domain_steps(self, setup: Setup, domain: Domain) -> Iterator[Step]:
        yield self._compare(setup, domain)
        yield from (setup.judge(domain, fit) for fits in self._fits(setup, domain).values() for fit in fits)

    def _fits(self, setup: Setup, domain: Domain) -> dict[str, list[Fit]]:
        """Those of each row, by seed."""
        found: dict[str, list[Fit]] = {"vanilla": [setup.fit(domain, "vanilla")]}
        seeds: list[dict[str, Any]] = [
            {} if seed == 1 else {"seed": seed} for seed in range(1, setup.seeds[domain.name] + 1)
        ]
        found["adaptive"] = [setup.fit(domain, "adaptive", **seed) for seed in seeds]
        for part in ("", *_PARTS):
            options: dict[str, Any] = {"without": (part,)} if part else {}
            found[part] = [setup.fit(domain, "robust", **options, **seed) for seed in seeds]
        return found

    def _systems(self, setup: Setup, domain: Domain) -> dict[str, list[System]]:
        return {
            name: [setup.system(f"{ROWS[name]}, seed {seed}", domain, fit) for seed, fit in enumerate(fits, start=1)]
            for name, fits in self._fits(setup, domain).items()
        }

    def _compare(self, setup: Setup, domain: Domain) -> Compare:
        systems = tuple(system for each in self._systems(setup, domain).values() for system in each)
        return Compare(systems, domain.test, f"{ROWS['']}, seed 1")

    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section:
        scores = results(self._compare(setup, domain))
        systems, fits = self._systems(setup, domain), self._fits(setup, domain)
        bleu = {name: [scores["systems"][each.name] for each in systems[name]] for name in ROWS}
        judged = {name: [results(setup.judge(domain, fit)) for fit in fits[name]] for name in ROWS}
        nll = {name: [each["nll"] for each in judged[name]] for name in ROWS}
        rows = []
        of_paper = domain.name == "it"
        for name, label in ROWS.items():
            cells: list[Cell | str] = [label, over_seeds(bleu[name], "bleu", ".2f")]
            cells += [over_seeds(judged[name], figure, ".4f") for figure in ("nll", "accuracy")]
            cells.append(number(fmean(nll[name]) - fmean(nll[""]), "+.4f") if name else number(None))
            if of_paper:
                published = paper.MAIN[name]["it"] if name in paper.MAIN else paper.ABLATION[name]
                cells.append(number(published))
            rows.append(row(*cells, rule=name in ("", "vector-perturbation")))
        columns = ["", "BLEU", "NLL", "accuracy", "NLL − robust's", *(["BLEU, paper"] if of_paper else [])]
        notes = [
            f"Mean ± deviation over {setup.seeds[domain.name]} seeds.",
            sentences_note(domain),
            processors_note([scores]),
        ]
        table = Table(f"ablation-{domain.name}", f"Ablation on {domain.name}", columns, rows, notes)
        return Section(self.name, self.title, self.about, [table], claims=_claims(domain, nll, bleu))


def _claims(domain: Domain, nll: dict[str, list[float]], bleu: dict[str, list[Result]]) -> list[Claim]:
    loss = {part: fmean(nll[part]) - fmean(nll[""]) for part in _PARTS}

    def held(more: str, less: str) -> bool | None:
        """Whether the NLL is higher in one row than in another; None within two standard errors of the difference."""
        if len(nll[""]) == 1:  # the noise is not known
            return None
        difference = fmean(nll[more]) - fmean(nll[less])
        return None if abs(difference) <= 2 * hypot(_error(nll[more]), _error(nll[less])) else difference > 0

    def shown(*parts: str) -> str:
        changes = {
            part: fmean(each["bleu"] for each in bleu[part]) - fmean(e["bleu"] for e in bleu[""]) for part in parts
        }
        return ", ".join(f"{ROWS[part]} {loss[part]:+.4f} nats ({changes[part]:+.2f} BLEU)" for part in parts)

    every = [held(part, "") for part in _PARTS]
    undecided = [ROWS[part] for part, each in zip(_PARTS, every, strict=True) if each is None]
    return [
        Claim(
            f"{domain.name}: every part that is left out costs something.",
            all_held(every),
            f"{shown(*_PARTS)}; within two standard errors: {', '.join(undecided) or 'none'}.",
        ),
        Claim(
            f"{domain.name}: the WP network is worth more than the DC network.",
            held("wp", "dc"),
            f"{shown('wp', 'dc')}.",
        ),
        Claim(
            f"{domain.name}: pseudo pairs are worth more than noise on the keys.",
            held("pseudo-pairs", "vector-perturbation"),
            f"{shown('pseudo-pairs', 'vector-perturbation')}.",
        ),
        Claim(
            f"{domain.name}: a ratio that does not decline is worse than no robust training.",
            held("decline", "robust-training"),
            f"{shown('decline', 'robust-training')}.",
        ),
    ]


def _error(values: list[float]) -> float:
    """The standard error of the mean."""
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
