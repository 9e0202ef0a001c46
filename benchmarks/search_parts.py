"""What a search in a store is made of: finding the lists, looking through their codes, exact distances.

    python benchmarks/search_parts.py STORE [--rows 32,128] [--json]

At the store's own probes and candidates, with the index mapped and in memory in turn; stored keys are the queries. One
thread, CPU-ms a call, medians.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from machine import machine

from knnmt.datastore import Store
from knnmt.search import Searcher
from knnmt.search.exact import closest
from knnmt.search.ivf import IVF
from knnmt.search.keys import float32
from knnmt.search.parameters import SEED

K = 8
REPEATS = 24


def parts(searcher: Searcher, layout: str, queries: Any) -> dict[str, Any]:
    """Medians over batches of queries [repeats, rows, dim]."""
    index = searcher.indexes[0]
    assert isinstance(index, IVF), "exact search has no parts"
    times: dict[str, list[float]] = {"lists": [], "lists and codes": [], "exact distances": []}

    def timed(part: str, work: Callable[[], Any]) -> Any:
        started = time.process_time()
        answer = work()
        times[part].append(1000 * (time.process_time() - started))
        return answer

    for batch in queries:
        timed("lists", partial(index.faiss_index.quantizer.search, batch, index.probes))
        found = timed("lists and codes", partial(index.candidates, batch, K))
        timed("exact distances", partial(closest, searcher.entries, batch, found.ids, K))
    medians = {part: statistics.median(measured[1:]) for part, measured in times.items()}
    both = medians.pop("lists and codes")
    return {"index": layout, "rows": queries.shape[1], **medians, "codes": both - medians["lists"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--rows", type=lambda text: [int(number) for number in text.split(",")], default=[32, 128])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    store = Store.open(options.store)
    searchers = {"mapped": Searcher(store, in_memory=False), "in memory": Searcher(store, in_memory=True)}
    results = []
    for rows in options.rows:
        entries = store.entries
        chosen = np.random.default_rng(SEED).choice(len(entries), REPEATS * rows)
        queries = float32(entries.keys(entries.ids(chosen))).reshape(REPEATS, rows, entries.dim)
        for searcher in searchers.values():  # what is mapped is read from the disk now, and not while it is measured
            searcher.search(queries.reshape(-1, entries.dim), K)
        results += [parts(searcher, layout, queries) for layout, searcher in searchers.items()]
    if options.json:
        print(json.dumps({"machine": machine(1), "results": results}, indent=2))
        return
    print(machine(1))
    for each in results:
        print(
            f"{each['rows']:4} rows, {each['index']:10} lists {each['lists']:6.2f}  codes {each['codes']:6.2f}  "
            f"exact distances {each['exact distances']:6.2f}"
        )


if __name__ == "__main__":
    main()
