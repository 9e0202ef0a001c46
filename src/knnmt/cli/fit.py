"""`knnmt fit`"""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from knnmt.cli import options
from knnmt.cli.console import facts, note, out, print_json

if TYPE_CHECKING:
    from knnmt.tuning import Point
    from knnmt.workflow import FitReport


def fit(
    store: options.Store,
    corpus: options.Corpus,
    method: Annotated[str, typer.Option(help="vanilla: K, λ and T tuned on the dev pairs.")] = "vanilla",
    name: Annotated[str | None, typer.Option(help="To keep several of a method.", show_default=False)] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Neighbours; tuned by default.", show_default=False)] = None,
    decode_best: Annotated[
        int, typer.Option(min=0, help="Places of the grid compared by BLEU; 0: likelihood alone decides.")
    ] = 3,
    decode_sentences: Annotated[int, typer.Option(min=1, help="Dev sentences decoded for that.")] = 100,
    limit: options.Limit = None,
    model: options.Moved = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Fit a method to a store on dev pairs that are not in it; it is kept in the store.

    Example: `knnmt fit memory dev.de dev.en --method vanilla`
    """
    from knnmt.cli.threads import use_threads
    from knnmt.workflow import fit as run

    use_threads(threads)
    report = run(
        store,
        corpus,
        method,
        name=name,
        k=k,
        limit=limit,
        decode_best=decode_best,
        decode_sentences=decode_sentences,
        model=model,
        device=device,
    )
    if as_json:
        print_json(_json(report))
        return
    _show(report)
    if report.leaked:
        note(f"warning: {report.leaked:,} dev sentences are in the store, so it is trusted too much; leave them out.")
    if report.skipped:
        note(f"warning: {report.skipped:,} dev sentences are longer than the model takes and were left out.")
    note(f"next: knnmt translate {store} < FILE")


def _json(report: "FitReport") -> dict[str, object]:
    return {
        "name": report.name,
        "method": report.combiner.method,
        **report.combiner.options(),
        "nll": report.nll,
        "base_nll": report.base_nll,
        "mean_lambda": report.mean_lambda,
        "gold_in_k": report.gold_in_k,
        "median_nearest": report.median_nearest,
        "leaked": report.leaked,
        "skipped": report.skipped,
        "grid": [{"k": p.k, "lambda": p.lam, "temperature": p.temperature, "nll": p.nll} for p in report.grid],
        "bleu": [{"k": p.k, "lambda": p.lam, "temperature": p.temperature, "bleu": score} for p, score in report.bleu],
    }


def _show(report: "FitReport") -> None:
    """The dev likelihood over λ and T at the chosen K, and what was chosen."""
    chosen = report.combiner.options()
    decoded = {point: score for point, score in report.bleu}
    points = {(p.temperature, p.lam): p for p in report.grid if p.k == chosen["k"]}
    lambdas = sorted({lam for _, lam in points})
    table = Table(title=f"NLL of the dev tokens at K = {chosen['k']} (nats a token; base {report.base_nll:.3f})")
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
    facts(
        [
            ("kept as", f"{report.name} (K {chosen['k']}, λ {chosen['lambda']:g}, T {chosen['temperature']:g})"),
            ("NLL", f"{report.nll:.3f} (base {report.base_nll:.3f})"),
            ("gold among the neighbours", f"{report.gold_in_k:.1%}"),
            ("median nearest squared distance", f"{report.median_nearest:,.4g}"),
        ]
    )
