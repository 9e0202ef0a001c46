"""Search settings that are not options: constants, and values derived from the number of entries and the key size."""

import math
import os
from pathlib import Path

# From this size on, an index is faster than exact search. Also the most entries that may be outside an index.
FLAT_ENTRIES = 50_000

# Exact search holds at most this many bytes of float32 keys (260,000 keys of size 512). More are read in every search.
FLAT_RESIDENT_BYTES = 512 << 20

# BLAS ranks by ‖q‖² − 2q·h + ‖h‖², whose last digits are not exact: this many candidates per neighbour are rescored.
FLAT_RESCORE = 2

BLOCK_NUMBERS = 1 << 24  # float32 numbers per block of keys: 64 MB
TABLE_NUMBERS = 1 << 22  # float32 numbers per table of distances, queries × keys, in exact search
GATHERED_NUMBERS = 1 << 20  # float32 numbers per block of candidates' keys: 4 MB, which fit in the processor's cache

# Below this many queries, or multiplications in exact search (a tenth of a second), one thread is faster.
PARALLEL_QUERIES = 512
PARALLEL_PRODUCTS = 1 << 32

SEED = 1  # for every sample and the clustering; stored in the index's config

# At build, recall is measured with this many stored keys as queries, at these depths; recall@16 must reach 0.95. The
# aim is a little higher, because another sample of queries may give half a percent less.
RECALL_QUERIES = 1_000
RECALL_DEPTHS = (8, 16, 32)
CHOSEN_DEPTH = 16
RECALL_AIM = 0.955

RESCORES = (2, 3, 4, 6, 8, 12, 16)  # candidates per neighbour, cheapest first
RESCORE_COST = 40  # codes scanned in the time it takes to rescore one candidate


def list_count(entries: int, dim: int) -> int:
    """Number of lists of an IVF index: the power of two near 4·√N.

    Fewer if the centres would take more than 12 bytes per entry; the codes and ids take d/8 + 16.
    """
    wanted = 2 ** round(math.log2(4 * math.sqrt(entries)))
    return int(max(1, min(wanted, 1 << 18, 12 * entries // (4 * dim), entries // 32)))


def graph_links(lists: int) -> int:
    """Links per node of an HNSW graph over the list centres; 0 (no graph) if comparing with all centres is as fast."""
    return 32 if lists > 8_192 else 0


TRAIN_ENTRIES_PER_LIST = 32
TRAIN_BYTES = 512 << 20
TRAIN_ITERATIONS = 6


def train_count(entries: int, lists: int, dim: int) -> int:
    """Number of keys for finding the list centres; their memory is limited for any size of store."""
    return min(entries, TRAIN_ENTRIES_PER_LIST * lists, TRAIN_BYTES // (4 * dim))


# The index of the paper's line of work, IVF4096,PQ64 with 32 probes. Faiss asks for 39 training keys per list.
PQ_LISTS = 4_096
PQ_ENTRIES_PER_LIST = 39
PQ_PROBES = 32
PQ_CODES = 64
PQ_BITS = 8


def pq_list_count(entries: int) -> int:
    """Number of lists of an IVFPQ index: 4,096, or fewer for a small store."""
    return max(1, min(PQ_LISTS, entries // PQ_ENTRIES_PER_LIST))


def pq_codes(dim: int) -> int:
    """Number of codes per key: the largest divisor of its size up to 64."""
    return next(codes for codes in range(min(PQ_CODES, dim), 0, -1) if dim % codes == 0)


def pq_bits(training_keys: int) -> int:
    """Bits per code: 8, or fewer if there are fewer training keys than code words."""
    return max(1, min(PQ_BITS, training_keys.bit_length() - 1))


def probe_counts(lists: int) -> list[int]:
    """Numbers of probed lists that are tried at build, in ascending order: 1, 2, 3, 4, 6, 8, 12, 16, …"""
    doubled = [2**power for power in range(lists.bit_length())]
    between = [3 * power // 2 for power in doubled[1:]]
    return sorted({count for count in doubled + between if count < lists} | {lists})


HELD_SHARE = 1 / 8  # share of the machine's memory that an index may use by default
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")  # limit of the container, if there is one


def fits_in_memory(entries: int, dim: int) -> bool:
    """Compares with total memory, not free memory, so that the same command gives the same translations."""
    return entries * (dim // 8 + 32) <= HELD_SHARE * machine_memory()


def machine_memory() -> int:
    """Bytes of memory of this machine, or that the container may use."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = MEMORY_LIMIT.read_text().strip() if MEMORY_LIMIT.is_file() else "max"
    return min(physical, int(limit)) if limit.isdecimal() else physical
