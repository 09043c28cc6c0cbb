"""Augmentation: pairs in other subwords, concatenated, or in the reverse direction.

All of it is decided by a seed.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.text import Tokenizer

MOST_JOINED = 3  # pairs in one row


class IdPair(NamedTuple):
    """The token ids of a pair, without special ones but for the one that the decoder begins with."""

    source: list[int]
    target: list[int]
    begin: int


IdPairs = list[IdPair]


def augment(ids: IdPairs, recipe: TranslateRecipe, tokenizer: Tokenizer, seed: int) -> IdPairs:
    """Return the pairs in other subwords (BPE-dropout), concatenated or reversed, as the recipe says."""
    data = recipe.data
    if data.subword_dropout:
        texts = [tokenizer.decode(side) for pair in ids for side in (pair.source, pair.target)]
        spelled = tokenizer.sample_batch(texts, data.subword_dropout, seed % 2**32)
        begins = [pair.begin for pair in ids]
        ids = list(map(IdPair, spelled[0::2], spelled[1::2], begins))
    random = np.random.default_rng(seed)
    if random.random() < data.join:
        ids = concatenate(ids, int(random.integers(2, MOST_JOINED + 1)), data.max_tokens)
    share = recipe.train.both_ways
    return reverse_some(ids, share, tokenizer.special.reverse, random) if share else ids


def reverse_some(ids: IdPairs, share: float, begin: int, random: np.random.Generator) -> IdPairs:
    """Return the pairs, each with that chance reversed: its target is then the source, and its begin says so."""
    return [
        IdPair(pair.target, pair.source, begin) if is_reversed else pair
        for pair, is_reversed in zip(ids, random.random(len(ids)) < share, strict=True)
    ]


def concatenate(ids: IdPairs, count: int, max_tokens: int) -> IdPairs:
    """Return pairs of `count` pairs each, one behind the other, unless they would be longer than `max_tokens`.

    What stood in one batch has about the same length, so what is made of it has too.
    """
    longest = max(max(len(pair.source), len(pair.target)) for pair in ids)
    if count * longest > max_tokens:
        return ids
    rows = -(-len(ids) // count)
    groups = [ids[row::rows] for row in range(rows)]
    return [
        IdPair(
            [*chain(*(pair.source for pair in group))], [*chain(*(pair.target for pair in group))], group[0].begin
        )
        for group in groups
    ]
