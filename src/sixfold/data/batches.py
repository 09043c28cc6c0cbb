"""Batches under a token budget, determined by (seed, epoch, position) alone, so that resuming seeks.

An epoch is a random order of all examples, cut into pools. A pool is sorted by length and cut into batches
with little padding, and its batches are shuffled. To resume in the middle of an epoch, only the current pool is
rebuilt. Every process of a distributed run makes the same batches and takes its part of each.

Shapes: N examples, C padded columns (source and target, or one).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sixfold.data.shards import Ids

BATCHES_A_POOL = 256

Sizes = NDArray[np.int32]  # (N, C): the length of each example in each padded column


@dataclass(frozen=True)
class Position:
    """A run's position in its data: the next batch."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


class Batches:
    """The endless sequence of batches of one run; each batch is the examples of one training step."""

    def __init__(self, sizes: Sizes, batch_tokens: int, seed: int) -> None:
        self.sizes = sizes
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.pool_size = max(1, int(BATCHES_A_POOL * batch_tokens / float(sizes.max(axis=1).mean())))
        self.num_pools = -(-len(sizes) // self.pool_size)

    def from_position(self, start: Position) -> Iterator[tuple[Ids, Position]]:
        """Yield the examples of each batch and the position after it, for ever, beginning at `start`."""
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
        """Return the random order of all examples in one epoch."""
        examples = np.arange(len(self.sizes), dtype=np.uint32)
        return np.random.default_rng((self.seed, epoch)).permutation(examples)

    def pool_batches(self, order: Ids, epoch: int, pool: int) -> list[Ids]:
        """Return the batches of one pool, in the order they are trained on."""
        examples = order[pool * self.pool_size : (pool + 1) * self.pool_size]
        batches = self.cut(examples)
        shuffled = np.random.default_rng((self.seed, epoch, pool)).permutation(len(batches))
        return [batches[i] for i in shuffled]

    def cut(self, examples: Ids) -> list[Ids]:
        """Sort examples by length and cut them so that no column of a batch exceeds the token budget.

        Examples of equal longest column are sorted by the difference of the first and the last column, alternately
        ascending and descending, so that neighbours are similar and the shorter column needs little padding too.
        """
        sizes = self.sizes[examples]
        longest, first, last = sizes.max(axis=1), sizes[:, 0], sizes[:, -1]
        difference = np.where(longest % 2, first - last, last - first)
        in_order = np.lexsort((difference, longest))
        examples, longest = examples[in_order], longest[in_order]
        batches, begin = [], 0
        for end, length in enumerate(longest.tolist()):
            if length * (end + 1 - begin) > self.batch_tokens and end > begin:
                batches.append(examples[begin:end])
                begin = end
        batches.append(examples[begin:])
        return batches

    def padding_share(self) -> float:
        """Return the fraction of positions that is padding, measured on the first pool of an epoch."""
        batches = [self.sizes[batch] for batch in self.pool_batches(self.epoch_order(0), epoch=0, pool=0)]
        padded = sum(len(batch) * int(batch.max(axis=0).sum()) for batch in batches)
        return 1.0 - sum(int(batch.sum()) for batch in batches) / padded


def pad(rows: Sequence[Sequence[int] | NDArray[np.integer[Any]]], pad_id: int = 0) -> NDArray[np.int64]:
    """Return the rows as one array, the shorter ones padded at the end."""
    rectangle = np.full((len(rows), max(map(len, rows), default=0)), pad_id, dtype=np.int64)
    for filled, row in zip(rectangle, rows, strict=True):
        filled[: len(row)] = row
    return rectangle
