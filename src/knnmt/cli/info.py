"""`knnmt info`"""

from knnmt.cli import options
from knnmt.cli.console import facts, print_json, settings_in_a_line, size


def info(store: options.Store, as_json: options.Json = False) -> None:
    """What a store holds: pairs, sizes, model, index with its measured recall, combiners.

    Example: `knnmt info memory`
    """
    from knnmt.workflow import info as run

    found = run(store)
    if as_json:
        print_json(found)
        return
    model, search = found["model"], found["search"]
    languages = f", {model['source_lang']} → {model['target_lang']}" if model["source_lang"] else ""
    recall = ", ".join(f"recall@{k} {value:.3f}" for k, value in (search["recall"] or {}).items())
    rows = [
        ("pairs", f"{found['pairs']:,}"),
        ("sentences", f"{found['sentences']:,}"),
        ("model", f"{model['id']}{languages}, {model['key_layer']} layer, {model['precision']}, dim {found['dim']}"),
        ("search", f"{search['engine']} {search['index']}" + (f", {recall}" if recall else "")),
        ("fingerprint", found["fingerprint"]),
    ]
    rows += [(part, size(count)) for part, count in found["bytes"].items() if count]
    for combiner in found["combiners"]:
        nll = combiner["record"]["nll"]
        rows.append((combiner["name"], f"{combiner['method']}: {settings_in_a_line(combiner)}; dev NLL {nll:.3f}"))
    facts(rows)
