"""`knnmt evaluate`"""

from typing import Annotated

import typer

from knnmt.cli import options
from knnmt.cli.console import print_json
from knnmt.cli.evaluation_table import show_evaluation


def evaluate(
    store: options.Store,
    corpus: options.Corpus,
    methods: Annotated[
        str | None,
        typer.Option(help="base,vanilla,…; by default base and all fitted ones.", show_default=False),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Method to compare the others with; by default the first.", show_default=False)
    ] = None,
    limit: options.Limit = None,
    force: options.Force = False,
    beam: options.Beam = 4,
    length_penalty: options.LengthPenalty = None,
    max_length: options.MaxLength = None,
    batch_size: options.BatchSize = 32,
    engine: options.Engine = "auto",
    precision: options.Precision = "auto",
    skip_above: options.SkipAbove = 1.0,
    in_memory: options.InMemory = None,
    comet: Annotated[bool, typer.Option("--comet", help="Also compute COMET, with the comet-score command.")] = False,
    comet_model: Annotated[
        str | None, typer.Option(help="COMET's model or local checkpoint; implies --comet.", show_default=False)
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
        force=force,
        model=model,
        device=device,
    )
    if as_json:
        print_json(result.to_json())
    else:
        show_evaluation(result.to_json())
