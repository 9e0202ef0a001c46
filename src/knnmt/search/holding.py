"""Whether an index is held in memory where nobody has decided."""

import os
from pathlib import Path

HELD_SHARE = 1 / 8  # of the memory there is: what an index may take of it unasked
LIMIT = Path("/sys/fs/cgroup/memory.max")  # of the container this runs in, if it runs in one


def fits_in_memory(pairs: int, dim: int) -> bool:
    """By the memory that there is and not what is free just now: the same command gives the same translations."""
    return pairs * (dim // 8 + 32) <= HELD_SHARE * machine_memory()


def machine_memory() -> int:
    """Bytes that this machine has, or the container may use."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = LIMIT.read_text().strip() if LIMIT.is_file() else "max"
    return min(physical, int(limit)) if limit.isdecimal() else physical
