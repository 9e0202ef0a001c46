import os

import pytest

from knnmt.search import holding
from knnmt.search.holding import fits_in_memory

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
BYTES = 96  # a pair of 512 numbers


@pytest.mark.parametrize(
    ("limit", "memory"), [(None, PHYSICAL), ("max\n", PHYSICAL), ("80000000\n", 80_000_000), ("9" * 30, PHYSICAL)]
)
def test_an_eighth_of_the_machines_memory_or_the_containers(tmp_path, monkeypatch, limit, memory):
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(holding, "LIMIT", tmp_path / "memory.max")
    most = memory // 8 // BYTES
    assert fits_in_memory(most, 512)
    assert not fits_in_memory(most + 1, 512)
