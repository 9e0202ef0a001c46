"""Limit the number of CPU threads."""

import os

from knnmt.errors import MethodError

_PER_CORE = 4  # with more, threads only wait for each other


def use_threads(count: int | None) -> None:
    """Limit the thread pools of torch and faiss."""
    if count is None:
        return
    cores = os.cpu_count() or 1
    if count > _PER_CORE * cores:
        raise MethodError(
            f"--threads is {count}, but at most {_PER_CORE * cores} make sense on {cores} cores; lower it."
        )
    import faiss
    import torch

    torch.set_num_threads(count)
    faiss.omp_set_num_threads(count)
