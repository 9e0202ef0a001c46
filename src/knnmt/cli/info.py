"""`knnmt info`"""

from typing import Any

from rich.table import Table

from knnmt.cli import options
from knnmt.cli.console import facts, note, out, print_json, settings_in_a_line, size
from knnmt.shell import command


def info(store: options.Store, as_json: options.Json = False) -> None:
    """What a store holds: entries, sizes, model, index with its measured recall, views, combiners, the default method.

    Example: `knnmt info memory`
    """
    from knnmt.workflow import info as run

    found = run(store)
    if as_json:
        print_json(found)
        return
    model, search = found["model"], found["search"]
    languages = f", {model['source_lang']} → {model['target_lang']}" if model["source_lang"] else ""
    recall = "".join(f", recall@{k} {value:.3f}" for k, value in (search["recall"] or {}).items())
    rows = [
        ("entries", f"{found['entries']:,}"),
        ("sentences", f"{found['sentences']:,}"),
        ("model", f"{model['id']}{languages}, {model['key_layer']} layer, {model['precision']}, dim {found['dim']}"),
        ("search", f"{search['engine']} {search['index']}{recall}" if search["engine"] else "the index is lost"),
        ("default method", f"{found['default']['name']}: {found['default']['why']}"),
        ("fingerprint", found["fingerprint"]),
    ]
    rows += [(part, size(count)) for part, count in found["bytes"].items() if count]
    rows += [(combiner["name"], _in_words(combiner)) for combiner in found["combiners"]]
    facts(rows)
    if found["views"]:
        out.print(_table(found["views"]))
    for problem in [*search["problems"], *(problem for view in found["views"] for problem in view["problems"])]:
        note(f"warning: {problem}.")
    for build in found["unfinished"]:
        files = " ".join(map(str, build.get("corpus", [])))
        note(
            f"warning: {build['sentences']:,} sentence pairs of an unfinished build are ready ({files}); run the same "
            f"command again to finish it, or remove it with {command('build', store, '--drop-unfinished')}."
        )


def _table(views: list[dict[str, Any]]) -> Table:
    table = Table()
    table.add_column("view", style="bold")
    for column in ("entries", "sentences", "index", "recall@16", "size"):
        table.add_column(column, justify="right")
    for view in views:
        counts = ["?" if view[name] is None else f"{view[name]:,}" for name in ("entries", "sentences")]
        recall = "" if view["recall"] is None else f"{view['recall']['16']:.3f}"
        table.add_row(view["name"], *counts, view["index"] or "?", recall, size(view["bytes"]))
    return table


def _in_words(combiner: dict[str, Any]) -> str:
    if "problem" in combiner:
        return f"cannot be used: {combiner['problem']}"
    nll = combiner["record"].get("nll")
    measured = "" if nll is None else f"; dev NLL {nll:.3f}"
    return f"{combiner['method']}: {settings_in_a_line(combiner)}{measured}"
