"""Batches by token budget, decided by (seed, epoch, position) alone, so that resuming seeks.

An epoch is a random order of all pairs, cut into pools. A pool is sorted by length and cut into batches
with little padding, and its batches are shuffled. To go on from the middle of an epoch only the pool at
hand is made again. Every process of a distributed run makes the same batches and takes its share of each.

Shapes: B pairs, M source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sixfold.data.shards import Corpus, Ids
from sixfold.text.tokens import BACK_ID, BOS_ID, EOS_ID, PAD_ID

BATCHES_A_POOL = 256


class IdPair(NamedTuple):
    """The token ids of a pair, without marks but for the one that the decoder begins with."""

    source: list[int]
    target: list[int]
    begin: int = BOS_ID


IdPairs = list[IdPair]
Vary = Callable[[IdPairs], IdPairs]  # what to train on instead of the pairs as they are


@dataclass(frozen=True)
class Position:
    """Where a run stands in its data: the batch that comes next."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


@dataclass(frozen=True)
class Batch:
    """Some pairs as rectangles of token ids, padded at the end; a row may hold several of them."""

    source: NDArray[np.int64]  # (B, M), each with its end mark
    target_in: NDArray[np.int64]  # (B, T), each behind its begin mark
    target_out: NDArray[np.int64]  # (B, T), each with its end mark
    pairs: Ids  # which pairs of the corpus these are

    @property
    def num_target_tokens(self) -> int:
        """Target tokens to predict, end marks included, padding not."""
        return int((self.target_out != PAD_ID).sum())


class Batches:
    """The endless sequence of batches of one run; each batch is the pairs of one training step."""

    def __init__(self, corpus: Corpus, batch_tokens: int, seed: int) -> None:
        self.num_pairs = len(corpus)
        self.source, self.target = corpus.source_lengths, corpus.target_lengths
        self.batch_tokens = batch_tokens
        self.seed = seed
        mean = float((np.maximum(self.source, self.target) + 1).mean())  # with the end mark
        self.pool_pairs = max(1, int(BATCHES_A_POOL * batch_tokens / mean))
        self.num_pools = -(-self.num_pairs // self.pool_pairs)

    def from_position(self, start: Position) -> Iterator[tuple[Ids, Position]]:
        """Yield the pairs of each batch and the position after it, for ever, beginning at `start`."""
        epoch, pool, first = start.epoch, start.pool, start.batch
        while True:
            order = self.epoch_order(epoch)
            while pool < self.num_pools:
                batches = self.pool_batches(order, epoch, pool)
                for batch in range(first, len(batches)):
                    is_last = batch + 1 == len(batches)
                    after = Position(epoch, pool + 1) if is_last else Position(epoch, pool, batch + 1)
                    yield batches[batch], after
                pool, first = pool + 1, 0
            epoch, pool = epoch + 1, 0

    def epoch_order(self, epoch: int) -> Ids:
        """Return the random order of all pairs in one epoch."""
        return np.random.default_rng((self.seed, epoch)).permutation(np.arange(self.num_pairs, dtype=np.uint32))

    def pool_batches(self, order: Ids, epoch: int, pool: int) -> list[Ids]:
        """Return the batches of one pool, in the order they are trained on."""
        pairs = order[pool * self.pool_pairs : (pool + 1) * self.pool_pairs]
        batches = self.cut(pairs)
        shuffled = np.random.default_rng((self.seed, epoch, pool)).permutation(len(batches))
        return [batches[i] for i in shuffled]

    def cut(self, pairs: Ids) -> list[Ids]:
        """Sort pairs by length and cut them so that neither side of a batch exceeds the token budget.

        The longer side decides; then the difference of the sides goes up and down by turns, so that it does not
        leap between one length and the next, and the shorter side needs little padding too.
        """
        source, target = self.source[pairs] + 1, self.target[pairs] + 1  # with the end mark
        longest = np.maximum(source, target)
        difference = np.where(longest % 2, source - target, target - source)
        in_order = np.lexsort((difference, longest))
        pairs, longest = pairs[in_order], longest[in_order]
        batches, begin = [], 0
        for end, length in enumerate(longest.tolist()):
            if length * (end + 1 - begin) > self.batch_tokens and end > begin:
                batches.append(pairs[begin:end])
                begin = end
        batches.append(pairs[begin:])
        return batches

    def padding_share(self) -> float:
        """Return which share of the positions of an epoch's first pool, of both sides, is padding."""
        batches = self.pool_batches(self.epoch_order(0), epoch=0, pool=0)
        sides = [side[batch] + 1 for batch in batches for side in (self.source, self.target)]
        return 1.0 - sum(int(side.sum()) for side in sides) / sum(side.size * int(side.max()) for side in sides)

    def batches_an_epoch(self) -> int:
        """Return about how many batches an epoch has, from its first pool."""
        pool = len(self.pool_batches(self.epoch_order(0), epoch=0, pool=0))
        return max(1, round(pool * self.num_pairs / min(self.num_pairs, self.pool_pairs)))


def gather(corpus: Corpus, pairs: Ids, vary: Vary | None = None) -> Batch:
    """Read pairs from the corpus and pad them into a batch."""
    ids = [IdPair(*corpus.ids(pair)) for pair in pairs.tolist()]
    if vary is not None:
        ids = vary(ids)
    return Batch(
        source=pad([[*pair.source, EOS_ID] for pair in ids]),
        target_in=pad([[pair.begin, *pair.target] for pair in ids]),
        target_out=pad([[*pair.target, EOS_ID] for pair in ids]),
        pairs=pairs,
    )


def turn(ids: IdPairs, share: float, random: np.random.Generator) -> IdPairs:
    """Return the pairs, each with that chance turned: its target is then the source, and its mark says so."""
    return [
        IdPair(pair.target, pair.source, BACK_ID) if is_turned else pair
        for pair, is_turned in zip(ids, random.random(len(ids)) < share, strict=True)
    ]


def join(ids: IdPairs, count: int, max_tokens: int) -> IdPairs:
    """Return pairs of `count` pairs each, one behind the other, unless they would be longer than `max_tokens`.

    What stood in one batch has about the same length, so what is made of it has too.
    """
    longest = max(max(len(pair.source), len(pair.target)) for pair in ids)
    if count * longest > max_tokens:
        return ids
    rows = -(-len(ids) // count)
    groups = [ids[row::rows] for row in range(rows)]
    return [
        IdPair([*chain(*(pair.source for pair in group))], [*chain(*(pair.target for pair in group))])
        for group in groups
    ]


def pad(rows: Sequence[list[int]]) -> NDArray[np.int64]:
    """Return the rows as one rectangle, filled up behind the shorter ones."""
    rectangle = np.full((len(rows), max(map(len, rows), default=0)), PAD_ID, dtype=np.int64)
    for filled, row in zip(rectangle, rows, strict=True):
        filled[: len(row)] = row
    return rectangle
