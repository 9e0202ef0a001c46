"""The main results: Tables 2 and 3 of the paper."""

import shutil
from collections.abc import Iterator
from statistics import fmean

from knnmt.evaluation.comet import COMMAND
from knnmt.report import Cell, Claim, Row, Section, Table, bold_best, count, number, percent, row, text
from knnmt.study import paper
from knnmt.study.benchmark import Domain
from knnmt.study.setup import METHODS, Setup
from knnmt.study.step import MissingResult, Result, Step
from knnmt.study.steps import Collect, Comet, Compare, System
from knnmt.study.studies.figures import (
    MARKS_NOTE,
    Difference,
    bleu_cell,
    figure_cell,
    gain,
    mark,
    processors_note,
    sentences_note,
)
from knnmt.study.studies.study import Results, Study

SYSTEMS = ("base", *METHODS)


class Main(Study):
    name = "main"
    title = "Main results: how much better are the translations?"
    about = (
        "Tables 2 and 3 of the paper. The store of each domain holds its train set. K, λ and T of vanilla are tuned on "
        "dev, adaptive and robust are trained on dev; all are scored on test. BLEU is case-sensitive and detokenised."
    )

    def steps(self, setup: Setup) -> Iterator[Step]:
        for domain in setup.domains:
            yield setup.store(domain)
            yield self._compare(setup, domain)
            yield from (setup.judge(domain, setup.fit(domain, method)) for method in METHODS)
            yield self._base(setup, domain)
            if _has_comet():
                yield self._comet(setup, domain)

    def _systems(self, setup: Setup, domain: Domain) -> tuple[System, ...]:
        knn = (setup.system(method, domain, setup.fit(domain, method)) for method in METHODS)
        return (setup.system("base", domain), *knn)

    def _compare(self, setup: Setup, domain: Domain) -> Compare:
        return Compare(self._systems(setup, domain), domain.test, "adaptive")

    def _comet(self, setup: Setup, domain: Domain) -> Comet:
        return Comet(self._systems(setup, domain), domain.test)

    def _base(self, setup: Setup, domain: Domain) -> Collect:
        """The features that the base model's own NLL is taken from."""
        return setup.judge(domain, setup.fit(domain, "robust")).features

    def section(self, setup: Setup, results: Results) -> Section:
        scores = {each.name: results(self._compare(setup, each)) for each in setup.domains}
        tables = [
            self._bleu(setup, scores),
            self._intervals(scores),
            self._chrf(setup, scores),
            *self._comet_tables(setup, results),
            self._nll(setup, results),
            self._sizes(setup, results),
        ]
        return Section(self.name, self.title, self.about, tables, claims=self._claims(scores))

    def _notes(self, setup: Setup, scores: dict[str, Result]) -> list[str]:
        signature = next(iter(scores.values()))["signatures"]["bleu"]
        return [
            MARKS_NOTE,
            *(sentences_note(domain) for domain in setup.domains),
            processors_note(scores.values()),
            signature,
        ]

    def _bleu(self, setup: Setup, scores: dict[str, Result]) -> Table:
        names = list(scores)
        rows = []
        for system in SYSTEMS:
            found = {name: scores[name]["systems"][system] for name in names}
            marks = {
                name: mark(found[name], scores[name]["systems"]["adaptive"]) if system == "robust" else ""
                for name in names
            }
            cells = [bleu_cell(found[name], mark=marks[name]) for name in names]
            mean = number(fmean(found[name]["bleu"] for name in names))
            rows.append(row(system, *cells, mean, rule=system == "robust"))
        rows = bold_best(rows, range(1, len(names) + 2))
        if setup.benchmark.is_the_papers:
            known = [name for name in names if name in paper.MAIN["base"]]
            for system in SYSTEMS if known else ():
                published = [number(paper.MAIN[system].get(name)) for name in names]
                mean = number(fmean(paper.MAIN[system][name] for name in known))
                rows.append(row(f"{system}, paper", *published, mean, quiet=True, rule=system == "base"))
        return Table("main-bleu", "BLEU", ["", *names, "average"], rows, self._notes(setup, scores))

    def _intervals(self, scores: dict[str, Result]) -> Table:
        rows = []
        for system in SYSTEMS:
            cells = []
            for each in scores.values():
                score = each["systems"][system]
                low, high = score["bleu_ci"]
                p = "" if score["bleu_p"] is None else f", p {score['bleu_p']:.3f}"
                cells.append(text(f"{low:.1f}–{high:.1f}{p}"))
            rows.append(row(system, *cells))
        note = "p: of a difference from adaptive at least this large by chance; the smallest that is possible is 0.001."
        return Table("main-intervals", "BLEU: 95% intervals, and p against adaptive", ["", *scores], rows, [note])

    def _chrf(self, setup: Setup, scores: dict[str, Result]) -> Table:
        rows = []
        for system in SYSTEMS:
            found = [scores[name]["systems"][system] for name in scores]
            cells = [
                number(each["chrf"], note=f"95% interval {each['chrf_ci'][0]:.1f}–{each['chrf_ci'][1]:.1f}")
                for each in found
            ]
            rows.append(row(system, *cells, number(fmean(each["chrf"] for each in found))))
        columns = ["", *scores, "average"]
        return Table("main-chrf", "chrF", columns, bold_best(rows, range(1, len(columns))))

    def _comet_tables(self, setup: Setup, results: Results) -> list[Table]:
        """The table of COMET, if it was computed for all domains."""
        try:
            found = {each.name: results(self._comet(setup, each))["systems"] for each in setup.domains}
        except MissingResult:
            return []
        rows = []
        for system in SYSTEMS:
            values = [found[name][system] for name in found]
            rows.append(row(system, *(number(value, ".4f") for value in values), number(fmean(values), ".4f")))
        columns = ["", *found, "average"]
        return [Table("main-comet", "COMET", columns, bold_best(rows, range(1, len(columns))))]

    def _nll(self, setup: Setup, results: Results) -> Table:
        """Teacher-forced figures: they tell systems apart that BLEU cannot."""
        rows: list[Row] = []
        for domain in setup.domains:
            base = results(self._base(setup, domain))
            rows.append(
                row(
                    domain.name,
                    "base",
                    number(base["base_nll"], ".3f"),
                    number(base["base_accuracy"], ".3f"),
                    number(None),
                    number(None),
                    rule=bool(rows),
                )
            )
            judged = {method: results(setup.judge(domain, setup.fit(domain, method))) for method in METHODS}
            lowest = min(each["nll"] for each in judged.values())
            for method, each in judged.items():
                nll = figure_cell(each, "nll", best=each["nll"] == lowest)
                found, lam = percent(each["gold_in_k"]), figure_cell(each, "mean_lambda", ".2f")
                rows.append(row("", method, nll, figure_cell(each, "accuracy"), found, lam))
        columns = ["domain", "system", "NLL", "accuracy", "token among K", "mean λ"]
        note = (
            "NLL: nats per target token of the references. Accuracy: share of tokens that would be predicted right, "
            "given the right tokens before."
        )
        return Table("main-nll", "Likelihood of the references", columns, rows, [note])

    def _sizes(self, setup: Setup, results: Results) -> Table:
        rows = []
        for domain in setup.domains:
            store = results(setup.store(domain))
            search, sizes = store["search"], store["bytes"]
            recall = (search["recall"] or {}).get("8")
            gigabytes = [number(sizes[part] / 1e6, ",.0f") for part in ("keys", "index")]
            lengths = (len(domain.train), len(domain.dev), len(domain.test))
            index = f"{search['index']}, {search['probes']} probes" if search["probes"] else str(search["index"])
            cells: list[Cell | str] = [domain.name, *map(count, lengths), count(store["entries"])]
            rows.append(row(*cells, index, number(recall, ".3f"), *gigabytes))
        columns = ["domain", "train", "dev", "test", "entries", "index", "recall@8", "keys, MB", "index, MB"]
        return Table("main-sizes", "Sentences, and size of the datastores", columns, rows)

    def _claims(self, scores: dict[str, Result]) -> list[Claim]:
        claims = []
        for better, worse in (("vanilla", "base"), ("adaptive", "vanilla"), ("robust", "adaptive")):
            gains = {name: gain(each, better, worse) for name, each in scores.items()}
            average = Difference.average(list(gains.values()))
            shown = ", ".join(f"{name} {found}" for name, found in gains.items())
            claims.append(
                Claim(
                    f"{better} is better than {worse} (the paper: {paper.gain(better, worse):+.2f} BLEU on average).",
                    average.is_positive,
                    f"BLEU {better} − {worse}: {shown}; average {average}.",
                )
            )
        if "koran" in gains and len(gains) > 1:  # those of robust over adaptive
            koran = gains.pop("koran")
            others = Difference.average(list(gains.values()))
            claims.append(
                Claim(
                    "The gain of robust over adaptive is small on Koran, which has the smallest memory.",
                    (others - koran).is_positive,
                    f"Koran {koran} BLEU, the other domains {others} on average.",
                )
            )
        return claims


def _has_comet() -> bool:
    return shutil.which(COMMAND) is not None
