"""One thread where more would wait for each other longer than they work."""

from collections.abc import Iterator
from contextlib import contextmanager

import faiss


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Faiss in this thread uses one thread within the block, if `wanted`.

    Faiss and torch have a pool of threads each. Those of one keep a processor busy, waiting for more to do, for
    a while after every call: between the steps of a decoder they slow the other down more than they help.
    OpenMP keeps this setting for each calling thread, so that other threads do not see it.
    """
    before = faiss.omp_get_max_threads()
    if not wanted or before == 1:
        yield
        return
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
