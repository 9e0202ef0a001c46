"""Rows and neighbours of an observation, column by column."""

from dataclasses import fields, replace

import pytest
import torch
from worlds import observed

from knnmt.combiner import Needs, Observation

ROWS, K, TOP = 9, 6, 4


def drawn(context: bool = True) -> Observation:
    generator = torch.Generator().manual_seed(1)

    def numbers(width: int) -> torch.Tensor:
        return torch.randn(ROWS, width, generator=generator)

    past = torch.randint(0, 16, (ROWS, K), generator=generator) if context else None
    values = torch.randint(0, 50, (ROWS, K), generator=generator)
    return observed(numbers(K).abs(), values, numbers(K), numbers(K), numbers(TOP), past)


def test_all_columns_but_one_have_an_entry_for_each_neighbour() -> None:
    seen = drawn()
    assert {each.name for each in fields(Observation)} - seen.by_neighbour().keys() == {"log_p_top"}
    assert all(column.shape == (ROWS, K) for column in seen.by_neighbour().values())
    assert "matching_past" not in drawn(context=False).by_neighbour()


@pytest.mark.parametrize("rows", [slice(2, 7), torch.tensor([8, 0, 0, 3])])
def test_some_rows_and_what_a_combiner_needs(rows: slice | torch.Tensor) -> None:
    seen = drawn()
    taken = seen.take(rows, Needs(3, top=2, context=True))
    for name, column in seen.by_neighbour().items():
        assert torch.equal(getattr(taken, name), column[rows][:, :3])
    assert torch.equal(taken.log_p_top, seen.log_p_top[rows][:, :2])
    assert seen.take(rows, Needs(3)).matching_past is None


def test_another_order_of_the_neighbours() -> None:
    seen = drawn()
    order = torch.stack([torch.randperm(K, generator=torch.Generator().manual_seed(row)) for row in range(ROWS)])
    turned = seen.reordered(order)
    for name, column in seen.by_neighbour().items():
        for row in range(ROWS):
            assert getattr(turned, name)[row].tolist() == [column[row, k].item() for k in order[row].tolist()]
    assert torch.equal(turned.log_p_top, seen.log_p_top)


@pytest.mark.parametrize("context", [True, False])
def test_parts_put_together(context: bool) -> None:
    seen = drawn(context)
    parts = [seen.take(rows, Needs(K, TOP, context)) for rows in (slice(0, 2), slice(2, 2), slice(2, ROWS))]
    whole = Observation.concatenate(parts).cpu()
    assert whole.columns().keys() == seen.columns().keys()
    for name, column in seen.columns().items():
        assert torch.equal(getattr(whole, name), column)


def test_enough_for_a_combiner() -> None:
    seen = drawn()
    assert seen.is_enough_for(Needs(K, TOP, context=True))
    assert not seen.is_enough_for(Needs(K + 1))
    assert not seen.is_enough_for(Needs(1, TOP + 1))
    without = replace(seen, matching_past=None)
    assert without.is_enough_for(Needs(K, TOP))
    assert not without.is_enough_for(Needs(K, context=True))
