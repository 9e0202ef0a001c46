"""`knnmt evaluate`"""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from knnmt.cli import options
from knnmt.cli.console import note, out, print_json

if TYPE_CHECKING:
    from knnmt.workflow import Evaluation


def evaluate(
    store: options.Store,
    corpus: options.Corpus,
    methods: Annotated[
        str | None,
        typer.Option(help="base,vanilla,…: base and all that were fitted by default.", show_default=False),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="What the others are compared with; the first by default.", show_default=False)
    ] = None,
    limit: options.Limit = None,
    beam: options.Beam = 4,
    length_penalty: options.LengthPenalty = 0.6,
    max_length: options.MaxLength = None,
    batch_size: options.BatchSize = 32,
    engine: options.Engine = "auto",
    precision: options.Precision = "auto",
    skip_above: options.SkipAbove = 1.0,
    in_memory: options.InMemory = False,
    comet: Annotated[bool, typer.Option("--comet", help="COMET too, by the comet-score command.")] = False,
    comet_model: Annotated[
        str | None, typer.Option(help="COMET's model or local checkpoint; asks for COMET.", show_default=False)
    ] = None,
    model: options.Moved = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Translate test pairs with several methods and compare them.

    Example: `knnmt evaluate memory test.de test.en --methods base,vanilla`
    """
    from knnmt.cli.threads import use_threads
    from knnmt.decoding import Settings
    from knnmt.workflow import evaluate as run

    use_threads(threads)
    settings = Settings(
        beam=beam,
        length_penalty=length_penalty,
        max_length=max_length,
        batch_size=batch_size,
        engine=engine,
        precision=precision,
        skip_above=skip_above,
        in_memory=in_memory,
        split=False,
    )
    result = run(
        store,
        corpus,
        [name.strip() for name in methods.split(",")] if methods else None,
        baseline=baseline,
        limit=limit,
        comet=comet,
        comet_model=comet_model,
        settings=settings,
        model=model,
        device=device,
    )
    if as_json:
        print_json(result.to_json())
    else:
        _show(result)


def _show(result: "Evaluation") -> None:
    systems = result.to_json()["systems"]
    columns = ["BLEU", "95% CI", "p", "BP", "chrF", "NLL", "gold in K", "mean λ", "tokens/s"]
    columns += ["COMET"] * bool(result.comet) + ["BLEU unseen"] * (result.unseen is not None)
    table = Table(title=f"{result.sentences:,} test sentences; p: paired bootstrap against {result.scores.baseline}")
    table.add_column("system", style="bold")
    for column in columns:
        table.add_column(column, justify="right")
    for name, system in systems.items():
        p = result.scores.p_values.get(name)
        cells = [
            f"{system['bleu']:.2f}",
            f"{system['bleu_ci'][0]:.1f}–{system['bleu_ci'][1]:.1f}",
            f"{p.bleu_p:.3f}" if p else "",
            f"{system['brevity_penalty']:.3f}",
            f"{system['chrf']:.1f}",
            f"{system['nll']:.3f}",
            "" if system["gold_in_k"] is None else f"{system['gold_in_k']:.1%}",
            "" if system["mean_lambda"] is None else f"{system['mean_lambda']:.2f}",
            f"{system['tokens_per_second']:,.0f}",
        ]
        cells += [f"{result.comet[name]:.4f}"] if result.comet else []
        cells += [f"{system['bleu_unseen']:.2f}"] if result.unseen else []
        table.add_row(name, *cells)
    out.print(table)
    if result.leaked:
        note(f"warning: {result.leaked:,} test sentences are in the store; “unseen” leaves them out.")
    if result.skipped:
        note(f"warning: {result.skipped:,} test sentences are longer than the model takes: cut, and not in NLL and λ.")
    for signature in [*result.scores.signatures.values(), *(run.signature for run in result.runs.values())]:
        out.print(signature, style="dim", markup=False, soft_wrap=True)
