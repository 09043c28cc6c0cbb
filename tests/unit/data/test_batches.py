"""Batches: every pair once an epoch, in an order that a seed decides and any position can be gone on from."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data import batches as module
from sixfold.data.batches import Batches, Position, pad

PAD = 0
Lengths = list[tuple[int, int]]
Sequence = list[tuple[list[int], Position]]


def make_batches(lengths: Lengths, batch_tokens: int = 40, seed: int = 1, pool: int = 3) -> Batches:
    """Return the batches of pairs of these lengths and an end token each, from several small pools."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCHES_A_POOL", pool)
        return Batches(np.array(lengths, dtype=np.int32) + 1, batch_tokens, seed)


def take(batches: Batches, count: int, start: Position | None = None) -> Sequence:
    """Return the first batches from a position on."""
    return [(pairs.tolist(), after) for pairs, after in islice(batches.from_position(start or Position()), count)]


def epochs(batches: Batches, count: int) -> list[list[list[int]]]:
    """Return the batches of the first epochs."""
    found: list[list[list[int]]] = [[] for _ in range(count + 1)]
    position = Position()
    for pairs, after in batches.from_position(position):
        epoch = position.epoch + (position.pool == batches.num_pools)
        if epoch == count:
            return found[:count]
        found[epoch].append(pairs.tolist())
        position = after
    raise AssertionError("the batches ended")


def realistic_lengths(count: int) -> Lengths:
    """Return lengths like those of translated sentences: skewed, and the two sides alike but not the same."""
    draw = np.random.default_rng(1)
    source = np.exp(draw.normal(2.6, 0.6, count)).clip(1, 200)
    target = (source * np.exp(draw.normal(0, 0.2, count))).clip(1, 200)
    return list(zip(source.astype(int).tolist(), target.astype(int).tolist(), strict=True))


REALISTIC = realistic_lengths(2000)
few_pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60)
budgets = st.integers(1, 120)


# The order of an epoch


@settings(max_examples=50, deadline=None)
@given(lengths=few_pairs, batch_tokens=budgets, seed=st.integers(0, 2**40))
def test_every_pair_comes_exactly_once_an_epoch(lengths: Lengths, batch_tokens: int, seed: int) -> None:
    for epoch in epochs(make_batches(lengths, batch_tokens, seed), 3):
        assert sorted(pair for batch in epoch for pair in batch) == list(range(len(lengths)))
        assert all(epoch)


@settings(max_examples=50, deadline=None)
@given(lengths=few_pairs, batch_tokens=budgets, seed=st.integers(0, 2**40))
def test_going_on_from_any_position_is_the_rest_of_the_sequence(
    lengths: Lengths, batch_tokens: int, seed: int
) -> None:
    batches = make_batches(lengths, batch_tokens, seed)
    count = 2 * sum(map(len, epochs(batches, 1))) + 3  # over the edges of two epochs
    whole = take(batches, count)
    for done, (_, position) in enumerate(whole, start=1):
        again = make_batches(lengths, batch_tokens, seed)
        assert take(again, count - done, position) == whole[done:]


def test_the_position_after_the_last_batch_of_an_epoch_begins_the_next() -> None:
    batches = make_batches(REALISTIC[:50])
    last = Position(epoch=0, pool=batches.num_pools)
    assert take(batches, 5, last) == take(batches, 5, Position(epoch=1))


def test_the_seed_and_the_epoch_decide_the_order() -> None:
    def first_epochs(seed: int) -> list[list[list[int]]]:
        return epochs(make_batches(REALISTIC[:300], seed=seed), 3)

    assert first_epochs(1) == first_epochs(1)
    orders = [epoch for seed in (1, 2, 3) for epoch in first_epochs(seed)]
    assert len({str(epoch) for epoch in orders}) == 9
    assert len({str(sorted(map(sorted, epoch))) for epoch in orders}) == 9  # other batches, not only another order


def test_the_batches_of_a_pool_are_not_in_the_order_of_their_lengths() -> None:
    batches = make_batches(REALISTIC, batch_tokens=400, pool=64)
    longest = [batches.sizes[pairs, 1].max() for pairs, _ in take(batches, 60)]
    assert abs(np.corrcoef(longest, np.arange(60))[0, 1]) < 0.5


# The shape of a batch


@settings(max_examples=100, deadline=None)
@given(lengths=few_pairs, batch_tokens=budgets)
def test_only_a_single_pair_may_exceed_the_token_budget(lengths: Lengths, batch_tokens: int) -> None:
    for batch in epochs(make_batches(lengths, batch_tokens), 1)[0]:
        for side in zip(*(lengths[pair] for pair in batch), strict=True):
            assert len(batch) == 1 or len(batch) * (max(side) + 1) <= batch_tokens


def test_realistic_lengths_need_little_padding_and_fill_the_budget() -> None:
    lengths = realistic_lengths(20_000)
    batches = make_batches(lengths, batch_tokens=1000, pool=module.BATCHES_A_POOL)
    [epoch] = epochs(batches, 1)
    sides = [np.array(side)[batch] + 1 for side in zip(*lengths, strict=True) for batch in epoch]
    positions, filled = sum(side.size * side.max() for side in sides), sum(side.sum() for side in sides)
    padding = 1 - filled / positions
    assert padding < 0.05
    assert batches.padding_share() == pytest.approx(padding, abs=0.01)
    assert filled / 2 > 0.9 * 1000 * len(epoch)


# Padding


@given(rows=st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=5))
def test_padding_only_fills_up_the_ends(rows: list[list[int]]) -> None:
    rectangle = pad(rows, PAD)
    assert [row[: len(kept)].tolist() for row, kept in zip(rectangle, rows, strict=True)] == rows
    assert (rectangle != PAD).sum() == sum(map(len, rows))
    assert rectangle.shape == (len(rows), max(map(len, rows), default=0))


@given(rows=st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=5))
def test_padding_is_what_it_was_asked_to_be(rows: list[list[int]]) -> None:
    rectangle = pad(rows, -100)
    assert (rectangle == -100).sum() == rectangle.size - sum(map(len, rows))


@pytest.mark.parametrize("columns", [1, 3])
def test_batches_of_one_column_or_three_keep_to_the_budget_in_each(columns: int, seed: int) -> None:
    sizes = np.random.default_rng(seed).integers(1, 40, (500, columns)).astype(np.int32)
    [epoch] = epochs(Batches(sizes, 200, seed), 1)
    assert sorted(example for batch in epoch for example in batch) == list(range(500))
    assert all(len(batch) == 1 or len(batch) * sizes[batch].max() <= 200 for batch in epoch)
