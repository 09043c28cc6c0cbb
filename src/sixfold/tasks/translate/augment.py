"""Augmentation: short pairs concatenated to longer ones, as a seed decides."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from sixfold.tasks.translate.recipe import DataConfig

MOST_CONCATENATED = 3  # pairs in one row


class IdPair(NamedTuple):
    """The token ids of a pair, without special ones."""

    source: list[int]
    target: list[int]


IdPairs = list[IdPair]


def augment(ids: IdPairs, data: DataConfig, seed: int) -> IdPairs:
    """Return the pairs of a batch, concatenated in as many batches as the recipe says."""
    random = np.random.default_rng(seed)
    if random.random() < data.concatenate:
        return concatenate(ids, int(random.integers(2, MOST_CONCATENATED + 1)), data.max_tokens)
    return ids


def concatenate(ids: IdPairs, count: int, max_tokens: int) -> IdPairs:
    """Return rows of `count` pairs each, one after the other, unless they would be longer than `max_tokens`.

    Pairs of one batch have about the same length, so the rows made of them have too.
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
