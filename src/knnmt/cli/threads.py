"""How many cores the work may use."""

import faiss
import torch


def use_threads(count: int | None) -> None:
    """Bound the thread pools of torch and faiss."""
    if count is not None:
        torch.set_num_threads(count)
        faiss.omp_set_num_threads(count)
