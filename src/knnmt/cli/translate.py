"""`knnmt translate`"""

from typing import Annotated

import typer

from knnmt.cli import options
from knnmt.cli.console import note


def translate(
    store: options.Store,
    method: Annotated[
        str | None,
        typer.Option(help="A fitted combiner's name, or base; by default the best fitted.", show_default=False),
    ] = None,
    beam: options.Beam = 4,
    length_penalty: options.LengthPenalty = None,
    max_length: options.MaxLength = None,
    n_best: Annotated[int, typer.Option(min=1, help="Translations per line of input, one per line of output.")] = 1,
    batch_size: options.BatchSize = 32,
    engine: options.Engine = "auto",
    precision: options.Precision = "auto",
    skip_above: options.SkipAbove = 1.0,
    in_memory: options.InMemory = None,
    no_split: Annotated[bool, typer.Option("--no-split", help="Do not split a line into sentences.")] = False,
    model: options.Moved = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line; explains every token.")] = False,
) -> None:
    """Translate standard input, one line out per line in. Lines are translated as soon as the input pauses.

    Example: `knnmt translate memory < manual.de > manual.en`
    """
    import json

    from knnmt.cli.standard_input import read_lines
    from knnmt.cli.threads import use_threads
    from knnmt.decoding import Settings, Translator, explain

    use_threads(threads)
    settings = Settings(
        beam=beam,
        length_penalty=length_penalty,
        max_length=max_length,
        n_best=n_best,
        batch_size=batch_size,
        engine=engine,
        precision=precision,
        skip_above=skip_above,
        in_memory=in_memory,
        split=not no_split,
    )
    translator = Translator.open(store, method, settings=settings, model=model, device=device)
    note(translator.signature)
    for translation in translator.translations(read_lines()):
        if as_json:
            answer = json.dumps(explain(translator, translation), ensure_ascii=False)
        elif n_best > 1:
            best = [f"{score:.4f}\t{text}" for text, score in translation.n_best]
            # always n lines per line in, also for an empty line or if there are fewer translations
            answer = "\n".join(best + [""] * (n_best - len(best)))
        else:
            answer = translation.text
        print(answer, flush=True)  # a program may be waiting for it
