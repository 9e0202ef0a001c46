"""The output of `knnmt fit`."""

from rich.markup import escape
from rich.table import Table

from knnmt.cli.console import facts, in_a_line, out
from knnmt.methods import FitTable
from knnmt.workflow import FitReport


def show(report: FitReport) -> None:
    """Print what was tried and what was chosen."""
    for table in report.fitted.tables:
        _show_table(table)
    rows = [
        ("kept as" if report.kept else "not kept", f"{report.name} ({in_a_line(report.combiner.options())})"),
        ("NLL", f"{report.nll:.3f} (base {report.base_nll:.3f}), mean λ {report.mean_lambda:.2f}"),
        ("gold among the neighbours", f"{report.gold_in_k:.1%}"),
        ("median nearest squared distance", f"{report.median_nearest:,.4g}"),
        *report.fitted.facts,
    ]
    if report.self_trained:
        sentences = report.combiner.record["sentences"]
        rows.append(
            ("trained on", f"{sentences:,} sentences of the store, those with the same text left out of each search")
        )
    facts(rows)


def _show_table(table: FitTable) -> None:
    shown = Table(title=table.title)
    for column in table.columns:
        shown.add_column(column, justify="right")
    for number, row in enumerate(table.rows):
        cells = [escape(cell) for cell in row]
        if table.chosen is not None and table.chosen[0] == number:
            cells[table.chosen[1]] = f"[bold green]{cells[table.chosen[1]]}[/bold green]"
        shown.add_row(*cells)
    out.print(shown)
