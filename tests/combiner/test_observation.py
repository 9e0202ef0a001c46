"""Rows and neighbours of an observation, column by column."""

from dataclasses import fields, replace

import pytest
import torch
from worlds import observed

from knnmt.combiner import CONTEXT, Needs, Observation

ROWS, K, TOP = 9, 6, 4
EVERYTHING = frozenset(CONTEXT)
CONTEXT_COLUMNS = {"matching_past", "same_beginning", "source_similarity", "continued"}


def drawn(context: bool = True) -> Observation:
    generator = torch.Generator().manual_seed(1)

    def numbers(width: int) -> torch.Tensor:
        return torch.randn(ROWS, width, generator=generator)

    values = torch.randint(0, 50, (ROWS, K), generator=generator)
    seen = observed(numbers(K).abs(), values, numbers(K), numbers(K), numbers(TOP))
    if not context:
        return seen
    past = torch.randint(1, 16, (ROWS, K), generator=generator)
    return replace(
        seen,
        matching_past=past,
        same_beginning=past < 8,
        source_similarity=numbers(K).sigmoid(),
        continued=numbers(K) > 0,
    )


def test_all_columns_but_one_have_an_entry_for_each_neighbour() -> None:
    seen = drawn()
    assert {each.name for each in fields(Observation)} - seen.by_neighbour().keys() == {"log_p_top"}
    assert all(column.shape == (ROWS, K) for column in seen.by_neighbour().values())
    assert not CONTEXT_COLUMNS & drawn(context=False).columns().keys()


@pytest.mark.parametrize("rows", [slice(2, 7), torch.tensor([8, 0, 0, 3])])
def test_some_rows_and_what_a_combiner_needs(rows: slice | torch.Tensor) -> None:
    seen = drawn()
    taken = seen.take(rows, Needs(3, top=2, context=EVERYTHING))
    for name, column in seen.by_neighbour().items():
        assert torch.equal(getattr(taken, name), column[rows][:, :3])
    assert torch.equal(taken.log_p_top, seen.log_p_top[rows][:, :2])
    assert not CONTEXT_COLUMNS & seen.take(rows, Needs(3)).columns().keys()
    prefix = seen.take(rows, Needs(3, context=frozenset({"prefix"})))
    assert CONTEXT_COLUMNS & prefix.columns().keys() == {"matching_past", "same_beginning"}


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
    needs = Needs(K, TOP, EVERYTHING if context else frozenset())
    parts = [seen.take(rows, needs) for rows in (slice(0, 2), slice(2, 2), slice(2, ROWS))]
    whole = Observation.concatenate(parts).cpu()
    assert whole.columns().keys() == seen.columns().keys()
    for name, column in seen.columns().items():
        assert torch.equal(getattr(whole, name), column)


def test_enough_for_a_combiner() -> None:
    seen = drawn()
    assert seen.is_enough_for(Needs(K, TOP, context=EVERYTHING))
    assert not seen.is_enough_for(Needs(K + 1))
    assert not seen.is_enough_for(Needs(1, TOP + 1))
    without = replace(seen, matching_past=None)
    assert without.is_enough_for(Needs(K, TOP))
    assert not without.is_enough_for(Needs(K, context=frozenset({"prefix"})))
    assert without.is_enough_for(Needs(K, context=frozenset({"source"})))


def test_rows_without_context() -> None:
    seen, rows = drawn(), torch.arange(ROWS)[:, None] % 3 == 0
    bare = seen.without_context(rows)
    for name, column in seen.columns().items():
        kept = getattr(bare, name)
        assert torch.equal(kept[~rows[:, 0]], column[~rows[:, 0]])
        assert torch.equal(kept[::3], torch.zeros_like(column[::3]) if name in CONTEXT_COLUMNS else column[::3])
    assert drawn(context=False).without_context(rows).columns().keys() == drawn(context=False).columns().keys()


def test_unknown_context_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no context mood, only prefix, source, continuation"):
        Needs(K, context=frozenset({"mood"}))
