"""`knnmt fit`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knnmt.cli import options
from knnmt.cli.console import note, print_json
from knnmt.shell import command

if TYPE_CHECKING:
    from knnmt.workflow import FitReport

# Options that say nothing to other methods.
_ONLY = {
    "robust": ("preset", "dc", "wp", "top", "alpha", "beta", "sigma", "exact_perturbation"),
    "adaptive": ("hidden",),
    "vanilla": ("decode_best", "decode_sentences"),
}
_NETWORKS, _TRAINING, _ROBUST, _VANILLA = "Networks", "Training", "Robust training", "Vanilla"
_HIDE: dict[str, Any] = {"show_default": False}


def fit(
    context: typer.Context,
    store: options.Store,
    corpus: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CORPUS",
            help="Dev pairs that are not in the store: plain text files in pairs, source first; .tsv, .tmx, … alone. "
            "None: the memory trains itself, on sentences drawn from the store.",
            **_HIDE,
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="robust or adaptive: networks, trained. vanilla: K, λ, T, tuned.")] = (
        "robust"
    ),
    name: Annotated[str | None, typer.Option(help="To keep several of a method.", **_HIDE)] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Neighbours; 8, and tuned for vanilla.", **_HIDE)] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Drawn from the store where there is no CORPUS.")] = 2000,
    limit: options.Limit = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace a better combiner of that name too; take the pairs whatever their languages seem."
        ),
    ] = False,
    without: Annotated[
        str | None,
        typer.Option(
            help="Leave parts of robust out, as the paper does, with commas between: wp, dc, vector-perturbation, "
            "pseudo-pairs, robust-training, decline.",
            **_HIDE,
        ),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(help="Hidden sizes: released (dc 4, wp 32) or paper (dc 32, wp 4).", rich_help_panel=_NETWORKS),
    ] = "released",
    dc: Annotated[
        int | None, typer.Option(min=1, help="Hidden size of the DC network.", rich_help_panel=_NETWORKS, **_HIDE)
    ] = None,
    wp: Annotated[
        int | None,
        typer.Option(min=1, help="Hidden size of the network of s_kNN and T.", rich_help_panel=_NETWORKS, **_HIDE),
    ] = None,
    hidden: Annotated[int, typer.Option(min=1, help="Of adaptive's network.", rich_help_panel=_NETWORKS)] = 32,
    top: Annotated[
        int | None,
        typer.Option(min=0, help="The model's highest p's robust looks at; K.", rich_help_panel=_NETWORKS, **_HIDE),
    ] = None,
    temperature: Annotated[
        str | None,
        typer.Option(
            help="robust: sigmoid (1/T) or paper (T = softplus). adaptive: a number; the store's vanilla has it.",
            rich_help_panel=_NETWORKS,
            **_HIDE,
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="Distances are divided by it; auto: the nearest one's median becomes 10.", rich_help_panel=_NETWORKS
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")] = 1,
    updates: Annotated[int, typer.Option(min=1, help="At most.", rich_help_panel=_TRAINING)] = 5000,
    batch_sentences: Annotated[int, typer.Option(min=1, help="Of an update.", rich_help_panel=_TRAINING)] = 32,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.", rich_help_panel=_TRAINING)] = 3e-4,
    adam_betas: Annotated[tuple[float, float], typer.Option(help="Of Adam.", rich_help_panel=_TRAINING)] = (0.9, 0.98),
    adam_eps: Annotated[float, typer.Option(help="Of Adam.", rich_help_panel=_TRAINING)] = 1e-8,
    clip: Annotated[float, typer.Option(help="Largest norm of a gradient.", rich_help_panel=_TRAINING)] = 1.0,
    label_smoothing: Annotated[float, typer.Option(help="On the mixture.", rich_help_panel=_TRAINING)] = 0.001,
    validate_from: Annotated[int, typer.Option(min=0, help="First dev loss.", rich_help_panel=_TRAINING)] = 1000,
    validate_every: Annotated[int, typer.Option(min=1, help="Then so often.", rich_help_panel=_TRAINING)] = 100,
    patience: Annotated[
        int, typer.Option(min=1, help="Dev losses without a better one before it ends.", rich_help_panel=_TRAINING)
    ] = 30,
    alpha: Annotated[float, typer.Option(help="Share of positions perturbed at first.", rich_help_panel=_ROBUST)] = 1.0,
    beta: Annotated[
        float,
        typer.Option(help="α declines as exp(−updates / β); the paper has 10 for Koran.", rich_help_panel=_ROBUST),
    ] = 1000.0,
    sigma: Annotated[float, typer.Option(help="Of the noise on keys.", rich_help_panel=_ROBUST)] = 0.01,
    exact_perturbation: Annotated[
        bool,
        typer.Option(
            "--exact-perturbation", help="Read keys back and project them; slow, to compare.", rich_help_panel=_ROBUST
        ),
    ] = False,
    decode_best: Annotated[
        int,
        typer.Option(
            min=0, help="Places of the grid compared by BLEU; 0: likelihood alone decides.", rich_help_panel=_VANILLA
        ),
    ] = 3,
    decode_sentences: Annotated[
        int, typer.Option(min=1, help="Dev sentences decoded for that.", rich_help_panel=_VANILLA)
    ] = 100,
    model: options.Moved = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Fit a method to a store; it is kept in the store, unless the one it would replace is better.

    Ctrl-C while it trains keeps the best so far.

    Examples:

        knnmt fit memory dev.de dev.en

        knnmt fit memory                                   (no dev pairs: the memory trains itself)

        knnmt fit memory dev.tsv --method vanilla

        knnmt fit memory dev.tsv --without dc,pseudo-pairs --name my-ablation
    """
    from knnmt.cli.threads import use_threads
    from knnmt.errors import MethodError
    from knnmt.training import Recipe
    from knnmt.workflow import Networks
    from knnmt.workflow import fit as run

    for other, names in _ONLY.items():
        # by name: typer has a copy of click's sources of its own
        given = [name for name in names if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
        if given and method != other:
            flag = f"--{given[0].replace('_', '-')}"
            raise MethodError(f"{flag} is of the method {other} and says nothing to {method}; leave it out.")
    use_threads(threads)
    report = run(
        store,
        corpus or [],
        method,
        name=name,
        k=k,
        without=[part.strip() for part in without.split(",")] if without else (),
        networks=Networks(
            preset=preset,
            dc=dc,
            wp=wp,
            hidden=hidden,
            top=top,
            temperature=temperature,
            scale=_scale(scale),
        ),
        recipe=Recipe(
            seed=seed,
            updates=updates,
            batch_sentences=batch_sentences,
            learning_rate=learning_rate,
            adam_betas=adam_betas,
            adam_eps=adam_eps,
            clip=clip,
            label_smoothing=label_smoothing,
            validate_from=validate_from,
            validate_every=validate_every,
            patience=patience,
            alpha=alpha,
            beta=beta,
            sigma=sigma,
            exact_perturbation=exact_perturbation,
        ),
        sentences=sentences,
        limit=limit,
        decode_best=decode_best,
        decode_sentences=decode_sentences,
        force=force,
        model=model,
        device=device,
    )
    from knnmt.cli.fit_report import show, to_json

    if as_json:
        print_json(to_json(report))
    else:
        show(report)
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
    if report.training and report.training.interrupted:
        note("Interrupted; the best so far is kept.")
    if not as_json:
        note(f"next: {command('translate', store)} < FILE")


def _better(report: "FitReport") -> str:
    assert report.previous_nll is not None
    if report.nll > report.previous_nll:
        return f"is better on these pairs (NLL {report.previous_nll:.3f}, the new one {report.nll:.3f})"
    return "was fitted on pairs that are not in the store"


def _scale(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text} is neither a number nor auto", param_hint="--scale") from error
