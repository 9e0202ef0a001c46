"""All that searching depends on and nobody is asked for: from the number of entries and the size of a key."""

import math
import os
from pathlib import Path

# From here on an index is quicker than looking at every key. It is also how many entries may wait outside an index.
FLAT_ENTRIES = 50_000

# Keys that exact search keeps in memory, in float32: 210,000 of size 512, say. More than that is read every time.
FLAT_RESIDENT_BYTES = 512 << 20

# BLAS ranks by ‖q‖² − 2q·h + ‖h‖², whose last digits are noise: so many for one are ranked by exact distance.
FLAT_RESCORE = 2

BLOCK_NUMBERS = 1 << 24  # float32 numbers in a block of keys read, assigned or added at a time: 64 MB
TABLE_NUMBERS = 1 << 22  # in a table of distances, queries × keys, of exact search
GATHERED_NUMBERS = 1 << 20  # of candidates' keys gathered at a time: 4 MB, which stay in the processor's cache

# Fewer queries than this, or fewer products of numbers in exact search (a tenth of a second), and one thread is best.
PARALLEL_QUERIES = 512
PARALLEL_PRODUCTS = 1 << 32

SEED = 1  # of every sample and of the clustering; in the index's config

# Recall is measured at build with so many stored keys as queries, at these depths; @16 has to reach 0.95. The aim is
# a little higher, because another sample of queries may find half a percent less.
RECALL_QUERIES = 1_000
RECALL_DEPTHS = (8, 16, 32)
CHOSEN_DEPTH = 16
RECALL_AIM = 0.955

RESCORES = (2, 3, 4, 6, 8, 12, 16)  # candidates for each neighbour wanted, cheapest first
RESCORE_COST = 40  # codes that are scanned in the time that one candidate is rescored


def list_count(entries: int, dim: int) -> int:
    """Lists of an IVF index: the power of two near 4·√N.

    Fewer where the centres would take more than 12 bytes per entry; the codes and ids take d/8 + 16.
    """
    wanted = 2 ** round(math.log2(4 * math.sqrt(entries)))
    return int(max(1, min(wanted, 1 << 18, 12 * entries // (4 * dim), entries // 32)))


def graph_links(lists: int) -> int:
    """Links of a graph (HNSW) over so many list centres; 0 where comparing with all of them is as quick."""
    return 32 if lists > 8_192 else 0


TRAIN_ENTRIES_PER_LIST = 32
TRAIN_BYTES = 512 << 20
TRAIN_ITERATIONS = 6


def train_count(entries: int, lists: int, dim: int) -> int:
    """Keys to find the list centres with; bounded in memory whatever the store's size."""
    return min(entries, TRAIN_ENTRIES_PER_LIST * lists, TRAIN_BYTES // (4 * dim))


def probe_counts(lists: int) -> list[int]:
    """Numbers of lists to look through that are tried at build, fewest first: 1, 2, 3, 4, 6, 8, 12, 16, …"""
    doubled = [2**power for power in range(lists.bit_length())]
    between = [3 * power // 2 for power in doubled[1:]]
    return sorted({count for count in doubled + between if count < lists} | {lists})


HELD_SHARE = 1 / 8  # of the memory there is: what an index may take of it unasked
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of the container this runs in, if it runs in one


def fits_in_memory(entries: int, dim: int) -> bool:
    """By the memory that there is and not what is free just now: the same command gives the same translations."""
    return entries * (dim // 8 + 32) <= HELD_SHARE * machine_memory()


def machine_memory() -> int:
    """Bytes that this machine has, or the container may use."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = MEMORY_LIMIT.read_text().strip() if MEMORY_LIMIT.is_file() else "max"
    return min(physical, int(limit)) if limit.isdecimal() else physical
