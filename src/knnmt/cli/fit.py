"""`knnmt fit`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knnmt.cli import options
from knnmt.cli.console import note, print_json
from knnmt.shell import command

if TYPE_CHECKING:
    from knnmt.workflow import FitReport

_HIDE: dict[str, Any] = {"show_default": False}


def fit(
    store: options.Store,
    corpus: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CORPUS",
            help="Dev pairs that are not in the store: plain text files in pairs, source first; .tsv, .tmx, … alone. "
            "Without any, sentences drawn from the store are used.",
            **_HIDE,
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="How to weigh the memory; the methods are listed above.")] = "robust",
    name: Annotated[str | None, typer.Option(help="The combiner's name, to keep several of a method.", **_HIDE)] = None,
    sentences: Annotated[int, typer.Option(min=1, help="How many to draw from the store without a CORPUS.")] = 2000,
    limit: options.Limit = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also replace a better combiner of that name; do not check the pairs' languages and order."
        ),
    ] = False,
    tune_length_penalty: Annotated[
        bool,
        typer.Option("--tune-length-penalty", help="Find the length penalty with the best BLEU on 200 dev sentences."),
    ] = False,
    model: options.Moved = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
    given: Any = None,
) -> None:
    """Fit a method to a store and save the result in the store, unless the one that it would replace is better.

    Ctrl-C during training keeps the best result so far.

    Examples:

        knnmt fit memory dev.de dev.en

        knnmt fit memory                                   (no dev pairs: uses the store's own sentences)

        knnmt fit memory dev.tsv --method vanilla

        knnmt fit memory dev.tsv --method evidence --tune-length-penalty

        knnmt fit memory dev.tsv --without dc,pseudo-pairs --name my-ablation
    """
    from knnmt.cli.fit_report import show
    from knnmt.cli.method_options import parsed
    from knnmt.cli.threads import use_threads
    from knnmt.methods import method_named
    from knnmt.workflow import fit as run

    use_threads(threads)
    report = run(
        store,
        corpus or [],
        method,
        name=name,
        sentences=sentences,
        limit=limit,
        force=force,
        tune_length_penalty=tune_length_penalty,
        model=model,
        device=device,
        **parsed(method_named(method), given),
    )
    if as_json:
        print_json(report.to_json())
    else:
        show(report)
    _warn(report)
    if not as_json:
        note(f"next: {command('translate', store)} < FILE")


def fit_command() -> Any:
    """The command with the options of all methods; it imports all methods, which takes time."""
    from knnmt.cli.method_options import with_method_options
    from knnmt.methods import methods

    known = methods()
    listed = "".join(f"\n\n    {name:10} {method.summary()}" for name, method in known.items())
    run = with_method_options(fit, known)
    run.__doc__ = (fit.__doc__ or "").replace("    Examples:", f"    Methods:{listed}\n\n    Examples:")
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    app.command("fit")(run)
    return typer.main.get_command(app)


def _warn(report: "FitReport") -> None:
    if not report.kept:
        note(
            f"warning: not kept: the {report.name} that the store has {_better(report)}; --force replaces it, --name "
            "keeps both."
        )
    if report.kept and report.nll >= report.base_nll:
        note(f"warning: {report.name} is worse than the model alone, so it is used only if it is named.")
    if report.leaked:
        note(f"warning: {report.leaked:,} dev sentences are in the store, so it is trusted too much; leave them out.")
    if report.skipped:
        note(f"warning: {report.skipped:,} dev sentences are longer than the model takes and were left out.")
    if report.fitted.interrupted:
        note("Interrupted; the best so far is kept.")


def _better(report: "FitReport") -> str:
    assert report.previous_nll is not None
    if report.nll > report.previous_nll:
        return f"is better on these pairs (NLL {report.previous_nll:.3f}, the new one {report.nll:.3f})"
    return "was fitted on pairs that are not in the store"
