"""Batches: every pair once an epoch, in an order that a seed decides and any position can be gone on from."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data import batches as module
from sixfold.data.batches import Batches, IdPair, IdPairs, Position, gather, join, pad, turn
from sixfold.data.shards import Corpus, EncodedPair, ShardWriter
from sixfold.text.tokens import BACK_ID, BOS_ID, EOS_ID, PAD_ID

Lengths = list[tuple[int, int]]
Sequence = list[tuple[list[int], Position]]


def make_corpus(folder: Path, lengths: Lengths) -> Corpus:
    """Write pairs of these lengths, whose tokens tell the pair, the side and the place."""
    writer = ShardWriter(folder, vocabulary=2**30, pairs_a_shard=7)
    for pair, (source, target) in enumerate(lengths):
        ids = [10_000 * pair + 100 + i for i in range(source + target)]
        writer.write([EncodedPair(ids[:source], ids[source:], line=pair + 1)])
    writer.close()
    return Corpus(folder, vocabulary=2**30)


def make_batches(lengths: Lengths, batch_tokens: int = 40, seed: int = 1, pool: int = 3) -> Batches:
    """Return the batches of a corpus, with pools so small that there are several."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCHES_A_POOL", pool)
        return Batches(make_corpus(Path(folder), lengths), batch_tokens, seed)


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
    longest = [max(batches.target[pairs]) for pairs, _ in take(batches, 60)]
    assert abs(np.corrcoef(longest, np.arange(60))[0, 1]) < 0.5


def test_the_number_of_batches_an_epoch_is_about_right() -> None:
    batches = make_batches(REALISTIC, batch_tokens=300, pool=16)
    assert batches.num_pools > 3
    assert batches.batches_an_epoch() == pytest.approx(len(epochs(batches, 1)[0]), rel=0.05)


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


# Reading a batch


def test_a_gathered_batch_is_padded_and_marked(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, [(3, 1), (1, 2), (2, 4)])
    batch = gather(corpus, np.array([2, 0]))
    assert batch.source.tolist() == [[20100, 20101, EOS_ID, PAD_ID], [100, 101, 102, EOS_ID]]
    assert batch.target_in.tolist() == [[BOS_ID, 20102, 20103, 20104, 20105], [BOS_ID, 103] + 3 * [PAD_ID]]
    assert batch.target_out.tolist() == [[20102, 20103, 20104, 20105, EOS_ID], [103, EOS_ID] + 3 * [PAD_ID]]
    assert batch.pairs.tolist() == [2, 0]
    assert batch.num_target_tokens == 7
    assert {side.dtype for side in (batch.source, batch.target_in, batch.target_out)} == {np.dtype(np.int64)}


def test_something_else_can_be_trained_on_than_the_pairs_as_they_are(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, [(3, 1), (1, 2)])
    seen: list[IdPairs] = []

    def respell(pairs: IdPairs) -> IdPairs:
        seen.append(pairs)
        return [IdPair([7, 7], [8]), IdPair([9], [6, 6, 6], begin=5)]

    batch = gather(corpus, np.array([1, 0]), respell)
    assert seen == [[IdPair(*corpus.ids(1)), IdPair(*corpus.ids(0))]]
    assert batch.source.tolist() == [[7, 7, EOS_ID], [9, EOS_ID, PAD_ID]]
    assert batch.target_in.tolist() == [[BOS_ID, 8, PAD_ID, PAD_ID], [5, 6, 6, 6]]
    assert batch.target_out.tolist() == [[8, EOS_ID, PAD_ID, PAD_ID], [6, 6, 6, EOS_ID]]


def test_a_share_of_the_pairs_is_turned_and_marked_and_each_stays_in_its_place() -> None:
    ids = [IdPair([number], [-number]) for number in range(1, 1001)]
    turned = turn(ids, 0.3, np.random.default_rng(7))
    assert all(new in (old, IdPair(old.target, old.source, BACK_ID)) for new, old in zip(turned, ids, strict=True))
    assert sum(pair.begin == BACK_ID for pair in turned) == pytest.approx(300, abs=80)
    assert turned == turn(ids, 0.3, np.random.default_rng(7)) != turn(ids, 0.3, np.random.default_rng(8))


def test_pairs_are_joined_one_behind_the_other_on_both_sides() -> None:
    ids = [IdPair([1], [11, 12]), IdPair([2, 3], [13]), IdPair([4], [14]), IdPair([5], [15]), IdPair([6], [])]
    assert join(ids, 2, 8) == [IdPair([1, 5], [11, 12, 15]), IdPair([2, 3, 6], [13]), IdPair([4], [14])]
    assert join(ids, 5, 10) == [IdPair([1, 2, 3, 4, 5, 6], [11, 12, 13, 14, 15])]


@given(
    ids=st.lists(
        st.builds(IdPair, st.lists(st.integers(5, 9), max_size=6), st.lists(st.integers(5, 9), max_size=6)),
        min_size=1,
    ),
    count=st.integers(2, 4),
    limit=st.integers(0, 30),
)
def test_joining_loses_nothing_and_makes_nothing_too_long(ids: IdPairs, count: int, limit: int) -> None:
    joined = join(ids, count, limit)
    for side in (0, 1):
        assert sorted(token for pair in joined for token in pair[side]) == sorted(
            token for pair in ids for token in pair[side]
        )
    if joined != ids:
        assert len(joined) == -(-len(ids) // count)
        assert max(max(len(pair.source), len(pair.target)) for pair in joined) <= limit


@given(rows=st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=5))
def test_padding_only_fills_up_the_ends(rows: list[list[int]]) -> None:
    rectangle = pad(rows)
    assert [row[: len(kept)].tolist() for row, kept in zip(rectangle, rows, strict=True)] == rows
    assert (rectangle != PAD_ID).sum() == sum(map(len, rows))
    assert rectangle.shape == (len(rows), max(map(len, rows), default=0))
