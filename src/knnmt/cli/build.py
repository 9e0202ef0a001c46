"""`knnmt build`"""

from typing import Annotated

import typer

from knnmt.cli import options
from knnmt.cli.console import facts, note, print_json, size
from knnmt.shell import command


def build(
    store: options.Store,
    corpus: options.OptionalCorpus = None,
    model: options.Model = None,
    source_lang: options.SourceLang = None,
    target_lang: options.TargetLang = None,
    source_prefix: options.SourcePrefix = None,
    key_layer: Annotated[
        str | None, typer.Option(help="The state that is stored: output (default) or ffn_input.", show_default=False)
    ] = None,
    origin: Annotated[
        str | None, typer.Option(help="Where the pairs come from, in place of the file's name.", show_default=False)
    ] = None,
    index: Annotated[str, typer.Option(help="auto, flat (exact search) or ivf.")] = "auto",
    limit: options.Limit = None,
    engine: options.Runner = "auto",
    precision: options.Precision = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Make a store from a parallel corpus, or add to one; without a corpus, make a store's index anew.

    Interrupted, the same command goes on where it was; the store changes once, at the end.

    Example: `knnmt build memory train.de train.en --model Helsinki-NLP/opus-mt-de-en`
    """
    from knnmt.cli.threads import use_threads
    from knnmt.workflow import build_with_report, info

    use_threads(threads)
    report = build_with_report(
        store,
        corpus or [],
        model,
        source_lang=source_lang,
        target_lang=target_lang,
        source_prefix=source_prefix,
        key_layer=key_layer,
        origin=origin,
        limit=limit,
        index=index,
        engine=engine,
        precision=precision,
        device=device,
    )
    added = {
        "pairs": report.pairs,
        "sentences": report.sentences,
        "resumed": report.resumed,
        "too_long": report.too_long,
        "known": report.known,
        "empty": 0,
        **report.left_out,
    }
    if as_json:
        print_json({"added": added, "store": info(report.store)})
        return
    rows = [("added", f"{report.pairs:,} pairs of {report.sentences:,} sentences" if corpus else "an index")]
    rows.append(("store", f"{report.store.pairs:,} pairs, {size(sum(report.store.sizes().values()))} in {store}"))
    if report.resumed:
        rows.append(("taken up", f"{report.resumed:,} pairs of an unfinished build"))
    facts(rows)
    for count, what in (
        (report.too_long, "sentence pairs are longer than the model takes and were left out"),
        (report.left_out.get("empty", 0), "lines have an empty side and were left out"),
        *((count, f"entries are {why} and were left out") for why, count in report.left_out.items() if why != "empty"),
        (report.known, "sentence pairs were in the store already and are now there again"),
    ):
        if count:
            note(f"warning: {count:,} {what}.")
    if not report.store.combiners:
        note(f"next: {command('fit', store, 'DEV')}")
