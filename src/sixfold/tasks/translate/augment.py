"""Augmentation: short pairs are concatenated to longer ones, determined by a seed."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from sixfold.tasks.translate.recipe import DataConfig

MOST_CONCATENATED = 3  # pairs per row


class IdPair(NamedTuple):
    """The token ids of a pair, without special tokens."""

    source: list[int]
    target: list[int]


IdPairs = list[IdPair]


def augment(ids: IdPairs, data: DataConfig, seed: int) -> IdPairs:
    """Return the pairs of a batch, concatenated in the recipe's fraction of batches."""
    random = np.random.default_rng(seed)
    if random.random() < data.concatenate:
        return concatenate(ids, int(random.integers(2, MOST_CONCATENATED + 1)), data.max_tokens)
    return ids


def concatenate(ids: IdPairs, count: int, max_tokens: int) -> IdPairs:
    """Concatenate `count` pairs to each row, unless it would be longer than `max_tokens`.

    The pairs of a batch have similar lengths, so the rows have too.
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
