"""What `knnmt fit` tells of a fit."""

from typing import Any

from rich.table import Table

from knnmt.cli.console import facts, in_a_line, out
from knnmt.tuning import Point
from knnmt.workflow import FitReport


def to_json(report: FitReport) -> dict[str, Any]:
    """The form that programs rely on."""
    return {
        "name": report.name,
        "kept": report.kept,
        "previous_nll": report.previous_nll,
        "method": report.combiner.method,
        **report.combiner.options(),
        "nll": report.nll,
        "base_nll": report.base_nll,
        "mean_lambda": report.mean_lambda,
        "gold_in_k": report.gold_in_k,
        "median_nearest": report.median_nearest,
        "self_trained": report.self_trained,
        "leaked": report.leaked,
        "skipped": report.skipped,
        "grid": [{"k": p.k, "lambda": p.lam, "temperature": p.temperature, "nll": p.nll} for p in report.grid],
        "bleu": [{"k": p.k, "lambda": p.lam, "temperature": p.temperature, "bleu": score} for p, score in report.bleu],
        "training": report.combiner.record["training"],
    }


def show(report: FitReport) -> None:
    """What was tried and what was chosen, for people."""
    if report.grid:
        _show_grid(report)
    if report.training:
        _show_history(report)
    rows = [
        ("kept as" if report.kept else "not kept", f"{report.name} ({in_a_line(report.combiner.options())})"),
        ("NLL", f"{report.nll:.3f} (base {report.base_nll:.3f}), mean λ {report.mean_lambda:.2f}"),
        ("gold among the neighbours", f"{report.gold_in_k:.1%}"),
        ("median nearest squared distance", f"{report.median_nearest:,.4g}"),
    ]
    training = report.combiner.record["training"]
    if training:
        rows.append(("seed", str(training["seed"])))
    if training and report.combiner.method == "robust" and training["alpha"] > 0:
        size = training["sigma"] ** 2 * report.store.dim
        rows.append(("noise on a key, σ²·D", f"{size:.3g}, to be compared with that distance"))
    if report.self_trained:
        sentences = report.combiner.record["sentences"]
        rows.append(
            ("trained on", f"{sentences:,} sentences of the store, those with the same text left out of each search")
        )
    facts(rows)


def _show_grid(report: FitReport) -> None:
    """The dev likelihood over λ and T at the chosen K."""
    chosen = report.combiner.options()
    decoded = {point: score for point, score in report.bleu}
    points = {(p.temperature, p.lam): p for p in report.grid if p.k == chosen["k"]}
    lambdas = sorted({lam for _, lam in points})
    table = Table(title=f"NLL of the dev tokens at K = {chosen['k']} (nats per token; base {report.base_nll:.3f})")
    table.add_column("T", justify="right")
    for lam in lambdas:
        table.add_column(f"λ {lam:g}", justify="right")
    for temperature in sorted({t for t, _ in points}):
        cells = []
        for lam in lambdas:
            point = points[temperature, lam]
            best = (temperature, lam) == (chosen["temperature"], chosen["lambda"])
            bleu = f"\n[dim]{decoded[point]:.1f} BLEU[/dim]" if point in decoded else ""
            cells.append((f"[bold green]{point.nll:.3f}[/bold green]" if best else f"{point.nll:.3f}") + bleu)
        table.add_row(f"{temperature:g}", *cells)
    out.print(table)
    if len({p.k for p in report.grid}) > 1:
        by_k: dict[int, Point] = {}
        for point in report.grid:
            by_k.setdefault(point.k, point)
        best_of_k = ", ".join(f"{k}: {by_k[k].nll:.3f}" for k in sorted(by_k))
        out.print(f"best NLL by K: {best_of_k}")


def _show_history(report: FitReport) -> None:
    """Some of the validations, the best among them."""
    assert report.training is not None
    history, best = report.training.history, report.training.best
    shown = {round(i * (len(history) - 1) / 7) for i in range(8)} | {history.index(best)}
    table = Table(title=f"{report.training.updates:,} updates (nats per token; base {report.base_nll:.3f})")
    for column in ("update", "NLL", "mean λ", "α"):
        table.add_column(column, justify="right")
    for place in sorted(shown):
        each = history[place]
        nll = f"[bold green]{each.nll:.3f}[/bold green]" if each is best else f"{each.nll:.3f}"
        table.add_row(f"{each.update:,}", nll, f"{each.mean_lambda:.2f}", f"{each.alpha:.3f}")
    out.print(table)
