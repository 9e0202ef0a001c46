import os
from itertools import pairwise
from pathlib import Path

import pytest

from knnmt.search import parameters
from knnmt.search.parameters import (
    fits_in_memory,
    list_count,
    pq_bits,
    pq_codes,
    pq_list_count,
    probe_counts,
    train_count,
)

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
BYTES = 96  # an entry of 512 numbers


@pytest.mark.parametrize(
    ("entries", "lists"), [(1, 1), (1_000, 31), (1_000_000, 4096), (4_500_000, 8192), (12_000_000, 16384)]
)
def test_lists_grow_with_the_root_of_the_entries(entries: int, lists: int) -> None:
    assert list_count(entries, 64) == lists


@pytest.mark.parametrize("dim", [64, 256, 512, 1024, 4096])
@pytest.mark.parametrize("entries", [20_000, 60_000, 1_000_000, 100_000_000])
def test_centres_are_a_small_part_of_the_index(entries: int, dim: int) -> None:
    lists = list_count(entries, dim)
    assert lists >= 1
    assert lists * dim * 4 / entries <= 12


@pytest.mark.parametrize(("entries", "lists", "dim"), [(1, 1, 8), (10**6, 4096, 512), (10**9, 131_072, 1024)])
def test_training_sample_is_bounded(entries: int, lists: int, dim: int) -> None:
    assert 1 <= train_count(entries, lists, dim) <= min(entries, (1 << 29) // (4 * dim))


@pytest.mark.parametrize("lists", [1, 2, 31, 4096])
def test_probes_go_from_one_list_to_all(lists: int) -> None:
    counts = probe_counts(lists)
    assert counts[0] == 1
    assert counts[-1] == lists
    assert counts == sorted(set(counts))
    assert all(later <= 2 * earlier for earlier, later in pairwise(counts))


@pytest.mark.parametrize(
    ("entries", "lists"), [(1, 1), (77, 1), (78, 2), (159_743, 4095), (159_744, 4096), (10**9, 4096)]
)
def test_lists_of_product_quantised_codes(entries: int, lists: int) -> None:
    assert pq_list_count(entries) == lists


@pytest.mark.parametrize(("dim", "codes"), [(1, 1), (16, 16), (67, 1), (96, 48), (256, 64), (512, 64), (1000, 50)])
def test_codes_divide_the_key(dim: int, codes: int) -> None:
    assert pq_codes(dim) == codes


@pytest.mark.parametrize(("keys", "bits"), [(1, 1), (3, 1), (4, 2), (255, 7), (256, 8), (10**6, 8)])
def test_as_many_training_keys_as_code_words(keys: int, bits: int) -> None:
    assert pq_bits(keys) == bits


@pytest.mark.parametrize(
    ("limit", "memory"), [(None, PHYSICAL), ("max\n", PHYSICAL), ("80000000\n", 80_000_000), ("9" * 30, PHYSICAL)]
)
def test_an_eighth_of_the_machines_memory_or_the_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, memory: int
) -> None:
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(parameters, "MEMORY_LIMIT", tmp_path / "memory.max")
    most = memory // 8 // BYTES
    assert fits_in_memory(most, 512)
    assert not fits_in_memory(most + 1, 512)
