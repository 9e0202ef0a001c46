"""Index kinds compared on the same keys: recall, CPU time a search, bytes a pair, CPU time to build.

    python benchmarks/search.py                                    synthetic keys, a couple of minutes
    python benchmarks/search.py --store STORE                      the keys of a store
    python benchmarks/search.py --keys KEYS.npy --sentence S.npy   fp16 [n, dim] and the sentence of each, uint32 [n]
    python benchmarks/search.py … --memory                         what opening and searching such a store takes

All kinds are asked in turn for the same queries, one thread each, and their exact distances are computed as in a
search of the store. Every inverted index has the same lists. The first one's probes and candidates are chosen as
`knnmt build` does; the others look through as many lists and rescore as few candidates as reach the same aim.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from machine import machine
from synthetic import Block, write_store

from knnmt.corpus import Pair
from knnmt.datastore import Entries, ModelRecord, Store
from knnmt.progress import show_progress
from knnmt.search import Searcher
from knnmt.search.exact import closest
from knnmt.search.flat import Flat
from knnmt.search.keys import float32, key_blocks, one_thread, prefer_blas
from knnmt.search.lists import cluster
from knnmt.search.parameters import (
    BLOCK_NUMBERS,
    CHOSEN_DEPTH,
    RECALL_AIM,
    RECALL_DEPTHS,
    RECALL_QUERIES,
    RESCORES,
    SEED,
    list_count,
)
from knnmt.search.recall import OperatingPoint, RecallTest, choose, recall_at_depths

BATCHES = (1, 16, 160)
K = 8
KINDS = "RaBitQ,HNSW+RaBitQ,RaBitQfs,RaBitQ2,RaBitQ4,PQ,PQfs,SQ4,SQ8,Flat"


@dataclass
class Keys:
    """What search needs of a segment."""

    keys: Any  # fp16 [n, dim]
    sentence: Any  # uint32 [n]
    name: str = "000001"
    number: int = 1

    def __len__(self) -> int:
        return len(self.keys)


@dataclass
class Contender:
    """An index and how it is to be searched."""

    kind: str
    candidates: Callable[[Any], Any]  # queries [rows, dim] → ids [rows, m]
    point: OperatingPoint
    bytes_a_pair: float
    build_cpu_seconds: float


def synthetic(count: int, dim: int = 256) -> Keys:
    """Keys as decoder states are: by token, few of which are frequent, and by context, in some directions mostly."""
    random = np.random.default_rng(SEED)
    tokens = random.normal(size=(2_000, dim))
    share = 1 / np.arange(1, len(tokens) + 1)
    contexts = random.normal(size=(5, dim)) / 2
    keys = np.empty((count, dim), dtype=np.float16)
    for start in range(0, count, 100_000):
        rows = len(keys[start : start + 100_000])
        token = tokens[random.choice(len(tokens), rows, p=share / share.sum())]
        context = random.normal(size=(rows, len(contexts))) @ contexts
        keys[start : start + rows] = token + context + random.normal(size=(rows, dim)) / 6
    return Keys(keys, (np.arange(count) // 15).astype(np.uint32))


def read_keys(arguments: argparse.Namespace) -> Keys:
    """What the command line names, or synthetic keys."""
    if arguments.store:
        segment = max(Store.open(arguments.store).segments, key=len)
        return Keys(segment.keys, segment.sentence)
    if not arguments.keys:
        return synthetic(max(arguments.entries or [100_000]))
    keys = np.asarray(np.load(arguments.keys, mmap_mode="r"))
    if arguments.sentence:
        return Keys(keys, np.asarray(np.load(arguments.sentence, mmap_mode="r")))
    return Keys(keys, (np.arange(len(keys)) // 15).astype(np.uint32))


def description(kind: str, lists: int, dim: int) -> str:
    """The index in faiss's own words."""
    codes = {"PQ": f"PQ{dim // 8}", "PQfs": f"PQ{dim // 4}x4fs", "HNSW+RaBitQ": "RaBitQ"}.get(kind, kind)
    return f"IVF{lists}{'_HNSW32' if kind.startswith('HNSW') else ''},{codes}"


def make_index(kind: str, entries: Entries, centres: Any) -> Any:
    """An index over given list centres, filled."""
    prefer_blas(entries.dim)
    index: Any = faiss.index_factory(entries.dim, description(kind, len(centres), entries.dim))
    index.quantizer.add(centres)
    if kind.startswith("PQ"):
        index.pq.cp.niter = 10  # 25 take minutes and find no more
    sample = np.random.default_rng(SEED).choice(len(entries), min(len(entries), 20_000), replace=False)
    index.train(float32(entries.keys(entries.ids(np.sort(sample)))))
    for ids, keys in key_blocks(entries, BLOCK_NUMBERS // entries.dim):
        index.add_with_ids(keys, ids)
    return index


def probe(index: Any, queries: Any, count: int, probes: int) -> Any:
    """`knnmt.search.ivf.IVF.probe` for any kind of codes."""
    prefer_blas(index.d)
    options: dict[str, Any] = {"nprobe": probes}
    if isinstance(faiss.downcast_index(index.quantizer), faiss.IndexHNSW):
        options["quantizer_params"] = faiss.SearchParametersHNSW(efSearch=2 * probes)  # type: ignore[attr-defined]
    kind = faiss.SearchParametersIVF
    if isinstance(index, faiss.IndexIVFRaBitQ | faiss.IndexIVFRaBitQFastScan):
        kind, options["qb"] = faiss.IVFRaBitQSearchParameters, index.qb
    return index.search(queries, min(count, index.ntotal), params=kind(**options))[1]


def inverted(kind: str, centres: Any, test: RecallTest, probes: int | None) -> Contender:
    """An inverted index at the probes given, or at the operating point that a build would choose."""
    entries = test.entries
    started = time.process_time()
    index = make_index(kind, entries, centres)
    seconds = time.process_time() - started
    with tempfile.NamedTemporaryFile() as file:
        faiss.write_index(index, file.name)
        size = Path(file.name).stat().st_size / len(entries)

    def find(queries: Any, count: int, probes: int) -> Any:
        return probe(index, queries, count, probes)

    if probes is None:
        point = choose(find, len(centres), test)
    else:
        ranked = test.rank(find(test.queries, max(RESCORES) * max(RECALL_DEPTHS) + test.longest, probes))
        reached = [each for each in RESCORES if test.recall(ranked, CHOSEN_DEPTH, each) >= RECALL_AIM]
        rescore = (reached or [max(RESCORES)])[0]
        point = OperatingPoint(probes, rescore, recall_at_depths(test, ranked, rescore))
    return Contender(kind, lambda queries: find(queries, K * point.rescore, point.probes), point, size, seconds)


def exact(entries: Entries) -> Contender:
    """Every key is looked at."""
    started = time.process_time()
    index = Flat(entries)
    point = OperatingPoint(0, 2, dict.fromkeys(map(str, RECALL_DEPTHS), 1.0))
    return Contender("Flat", lambda queries: index.candidates(queries, K).ids, point, 0, time.process_time() - started)


def measure(
    entries: Entries, contenders: Sequence[Contender], queries: Any, repeats: int
) -> dict[str, dict[int, float]]:
    """CPU-ms a search for each kind and batch size, the kinds in turn; the median of the repeats."""
    times: dict[str, dict[int, list[float]]] = {each.kind: {rows: [] for rows in BATCHES} for each in contenders}
    for repeat in range(repeats + 1):
        for contender in contenders:
            for rows in BATCHES:
                batch = queries[(repeat * rows + np.arange(rows)) % len(queries)]
                started = time.process_time()
                closest(entries, batch, contender.candidates(batch), K)
                times[contender.kind][rows].append(1000 * (time.process_time() - started))
    return {
        kind: {rows: statistics.median(measured[1:]) for rows, measured in batches.items()}
        for kind, batches in times.items()
    }


def compare(keys: Keys, kinds: Sequence[str], repeats: int, lists: int | None) -> list[dict[str, Any]]:
    """A row of the table for each kind."""
    entries = Entries([keys])  # type: ignore[list-item]  # which has all that is used here
    started = time.process_time()
    centres = cluster(entries, lists or list_count(len(entries), entries.dim))
    clustering = time.process_time() - started
    test = RecallTest(entries, RECALL_QUERIES, SEED)
    contenders: list[Contender] = []
    probes = None
    for kind in kinds:
        if kind == "Flat":
            contenders.append(exact(entries))
        else:
            contenders.append(inverted(kind, centres, test, probes))
            probes = probes or contenders[-1].point.probes
    chosen = np.random.default_rng(SEED + 1).choice(len(entries), RECALL_QUERIES, replace=False)
    with one_thread():
        times = measure(entries, contenders, float32(entries.keys(entries.ids(chosen))), repeats)
    return [
        {
            "entries": len(entries),
            "index": "Flat" if each.kind == "Flat" else description(each.kind, len(centres), entries.dim),
            "bytes": each.bytes_a_pair,
            "probes": each.point.probes,
            "rescore": each.point.rescore,
            "recall": each.point.recall,
            "cpu_ms": times[each.kind],
            "ratio": times[each.kind][BATCHES[-1]] / times[contenders[0].kind][BATCHES[-1]],
            "build_cpu_seconds": each.build_cpu_seconds + (clustering if each.kind != "Flat" else 0),
        }
        for each in contenders
    ]


def make_store(path: Path, keys: Keys) -> None:
    """A store of these keys, indexed, with texts that mean nothing."""
    dim = keys.keys.shape[1]
    model = ModelRecord("none", "none", "none", "output", dim, 1, "torch", "float32", "", None, None, 512)
    write_store(path, model, blocks(keys), {})


def blocks(keys: Keys) -> Iterator[Block]:
    """Whole sentences at a time."""
    ends = np.append(np.flatnonzero(np.diff(keys.sentence)) + 1, len(keys))  # of the sentences
    for block in np.array_split(np.arange(len(ends)), max(1, len(ends) // 10_000)):
        start, stop = (ends[block[0] - 1] if block[0] else 0), ends[block[-1]]
        lengths = np.diff(ends[block], prepend=start).tolist()
        texts = [Pair(f"source {number}", f"target {number}", "benchmark", int(number) + 1) for number in block]
        nothing = np.zeros(stop - start)
        yield keys.keys[start:stop], nothing.astype(np.int32), nothing.astype(np.float32), lengths, texts


def memory_of(path: Path, in_memory: bool) -> dict[str, Any]:
    """MB of this process before and after opening a store and searching in it; to be run in a process of its own."""

    def resident() -> dict[str, float]:
        lines = Path("/proc/self/status").read_text().splitlines()
        return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith("Rss")}

    report: dict[str, Any] = {"before": resident()}
    started = time.perf_counter()
    searcher = Searcher(Store.open(path), in_memory)
    report["open_seconds"] = time.perf_counter() - started
    report["opened"] = resident()
    random = np.random.default_rng(SEED)
    segment = searcher.store.segments[0]
    for _ in range(100):
        stored = segment.keys[random.integers(0, len(segment), 16)].astype(np.float32)
        searcher.search(stored + random.normal(scale=0.1, size=stored.shape).astype(np.float32), K)
    report["searched"] = resident()
    return {"entries": searcher.store.entry_count, "index": searcher.description, **report}


def report_memory(keys: Keys, store: str | None) -> list[dict[str, Any]]:
    """`memory_of` the store, or of one made of the keys, with the index mapped and held in memory."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(store) if store else Path(directory) / "store"
        if not store:
            make_store(path, keys)
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            return [pool.apply(memory_of, (path, in_memory)) for in_memory in (False, True)]


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The table, as it stands in docs/search.md."""
    batches = " | ".join(map(str, BATCHES))
    print(f"| entries | index | bytes/entry | probes | rescore | @8 | @16 | @32 | {batches} | ratio | build |")
    print("|" + "---|" * 13)
    for row in rows:
        recall = " | ".join(f"{row['recall'][str(depth)]:.3f}" for depth in RECALL_DEPTHS)
        times = " | ".join(f"{row['cpu_ms'][rows]:.2f}" for rows in BATCHES)
        print(
            f"| {row['entries']:,} | {row['index']} | {row['bytes']:.0f} | {row['probes'] or 'all'} "
            f"| ×{row['rescore']} | {recall} | {times} | {row['ratio']:.2f} | {row['build_cpu_seconds']:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", help="use the keys of the largest segment of a store")
    parser.add_argument("--keys", help="use the keys of an .npy file, fp16 [n, dim]")
    parser.add_argument("--sentence", help="the sentence of each of the keys, .npy; without it 15 keys make one")
    parser.add_argument(
        "--entries", type=lambda text: [int(number) for number in text.split(",")], help="sizes, e.g. 100000,1000000"
    )
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS.split(","), help=KINDS)
    parser.add_argument("--lists", type=int, help="lists of the inverted indexes; without it as `knnmt build` does")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--memory", action="store_true", help="measure the memory of opening and searching instead")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    keys = read_keys(arguments)
    results: list[dict[str, Any]] = []
    for count in arguments.entries or [len(keys)]:
        part = Keys(keys.keys[:count], keys.sentence[:count])
        if arguments.memory:
            results += report_memory(part, arguments.store)
        else:
            results += compare(part, arguments.kinds, arguments.repeats, arguments.lists)
    if arguments.json:
        print(json.dumps({"machine": machine(), "k": K, "results": results}, indent=2))
        return
    print(machine())
    if arguments.memory:
        for result in results:
            print(json.dumps(result, indent=2))
    else:
        print(f"CPU-ms a search for {K} neighbours by queries a call, one thread; CPU-s to build")
        print("ratio: of the largest batch, to the first row")
        show(results)


if __name__ == "__main__":
    with show_progress():
        main()
