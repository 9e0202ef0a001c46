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
        str | None, typer.Option(help="The origin of the pairs, instead of the file's name.", show_default=False)
    ] = None,
    index: Annotated[str, typer.Option(help="auto, flat (exact search), ivf, or ivfpq (as in the paper).")] = "auto",
    limit: options.Limit = None,
    keep_duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Add sentence pairs again that are in the store already.")
    ] = False,
    drop_unfinished: Annotated[
        bool, typer.Option("--drop-unfinished", help="First remove what interrupted builds have left in the store.")
    ] = False,
    force: options.Force = False,
    engine: options.ModelEngine = "auto",
    precision: options.Precision = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Build a store from a parallel corpus, or add to one; without a corpus, rebuild a store's index.

    Sentence pairs that are in the store already are left out. After an interruption, run the same command again to
    continue. The store changes once, at the end.

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
        keep_duplicates=keep_duplicates,
        drop_unfinished=drop_unfinished,
        force=force,
    )
    added = {
        "entries": report.entries,
        "pairs": report.entries,  # the earlier name
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
    search = info(report.store)["search"]
    done = f"an index: {search['index']}" if not drop_unfinished else "nothing; unfinished builds were removed"
    pairs = "1 sentence pair" if report.sentences == 1 else f"{report.sentences:,} sentence pairs"
    rows = [("added", f"{report.entries:,} entries of {pairs}" if corpus else done)]
    bytes_on_disk = sum(report.store.sizes().values())
    rows.append(("store", f"{report.store.entry_count:,} entries, {size(bytes_on_disk)} in {store}"))
    if report.resumed:
        rows.append(("resumed", f"{report.resumed:,} entries of an unfinished build"))
    facts(rows)
    repeated = "are now there again" if keep_duplicates else "were left out"
    for count, what in (
        (report.too_long, "sentence pairs are longer than the model takes and were left out"),
        *((count, _left_out(why, count)) for why, count in report.left_out.items()),
        (report.known, f"sentence pairs were in the store already and {repeated}"),
    ):
        if count:
            note(f"warning: {count:,} {what}.")
    if unfinished := len(report.store.unfinished()):
        note(f"warning: {unfinished} other unfinished build{'s' if unfinished > 1 else ''}; see knnmt info.")
    if not report.store.combiners:
        note(f"next: {command('fit', store, 'DEV')}")


def _left_out(why: str, count: int) -> str:
    if why == "header":
        return "header line was left out" if count == 1 else "header lines were left out"
    return f"{'lines have an empty side' if why == 'empty' else f'entries are {why}'} and were left out"
