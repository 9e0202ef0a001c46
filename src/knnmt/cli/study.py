"""`knnmt study`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from knnmt.cli import options
from knnmt.cli.console import facts, note, out, print_json, size

if TYPE_CHECKING:
    from knnmt.study import Plan


def study(
    benchmark: Annotated[
        Path, typer.Argument(metavar="BENCHMARK", help="A directory DOMAIN/{train,dev,test}.{SRC,TGT}.")
    ],
    out_directory: Annotated[Path, typer.Option("--out", metavar="REPORT", help="Directory of the report.")],
    model: Annotated[
        str | None, typer.Option(help="Directory, hub id or the bundled de-en-small.", show_default=False)
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Studies, separated by commas: main, confidence, lambda, pruning, k, ablation, quantised, offdomain, "
            "finetune; by default all.",
            show_default=False,
        ),
    ] = None,
    domains: Annotated[
        str | None, typer.Option(help="Domains, separated by commas; by default all.", show_default=False)
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of the ablation.")] = 3,
    test_limit: Annotated[
        int | None, typer.Option(min=1, help="Translate only the first N test sentences.", show_default=False)
    ] = None,
    preset: Annotated[
        str, typer.Option(help="tuned: K, λ and T of vanilla are tuned. paper: all values of the paper, and its model.")
    ] = "tuned",
    work: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Stores and kept results; by default REPORT/work.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the steps with estimated time, disk and memory; run nothing.")
    ] = False,
    source_lang: options.SourceLang = None,
    target_lang: options.TargetLang = None,
    source_prefix: options.SourcePrefix = None,
    engine: options.ModelEngine = "auto",
    precision: options.Precision = "auto",
    batch_size: options.BatchSize = 32,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Run the paper's experiments on a benchmark, and write a report with its tables and figures.

    Where a domain has no test file, the first half of its dev file fits and the second half scores. Every result is
    kept: after an interruption, run the same command again to continue; other options compute only what they change.

    Examples:

        knnmt study multidomain --model Helsinki-NLP/opus-mt-de-en --out report

        knnmt study multidomain --model de-en-small --out report --only main,k --domains it --test-limit 500

        knnmt study multidomain --preset paper --out report --dry-run
    """
    from knnmt.cli.threads import use_threads
    from knnmt.decoding import Settings
    from knnmt.study import Run

    use_threads(threads)
    asked = {"source_lang": source_lang, "target_lang": target_lang, "source_prefix": source_prefix}
    run = Run.open(
        benchmark,
        model,
        out_directory,
        only=_names(only),
        domains=_names(domains),
        seeds=seeds,
        test_limit=test_limit,
        preset=preset,
        work=work,
        settings=Settings(batch_size=batch_size, split=False),
        engine=engine,
        precision=precision,
        device=device,
        **{name: value for name, value in asked.items() if value is not None},
    )
    plan = run.plan
    if dry_run:
        _show_plan(plan, as_json)
        return
    if not plan.fits_in_memory:
        note(f"warning: a step may need {size(plan.memory)} of memory, more than this machine has.")
    page = run.finish()
    if as_json:
        print_json({"report": str(page), "steps": len(plan.steps), "done_before": plan.done})
        return
    facts([("steps", f"{len(plan.steps):,} done now, {plan.done:,} before"), ("report", str(page))])


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _show_plan(plan: "Plan", as_json: bool) -> None:
    if as_json:
        steps = [
            {"step": each.step.title, "cpu_seconds": each.seconds, "disk": each.disk, "memory": each.memory}
            for each in plan.steps
        ]
        total = {"cpu_seconds": plan.seconds, "disk": plan.disk, "memory": plan.memory}
        print_json({"steps": steps, "done": plan.done, "total": total})
        return
    table = Table(box=None)
    table.add_column("step")
    for column in ("CPU-minutes", "disk", "memory"):
        table.add_column(column, justify="right")
    for each in plan.steps:
        table.add_row(escape(each.step.title), f"{each.seconds / 60:,.1f}", size(each.disk), size(each.memory))
    table.add_row("in all", f"{plan.seconds / 60:,.1f}", size(plan.disk), size(plan.memory), style="bold")
    out.print(table)
    note(f"{len(plan.steps):,} steps to do, {plan.done:,} done.")
