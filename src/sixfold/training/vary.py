"""What a step trains on instead of its pairs as they are: other spellings, joined, turned round."""

from __future__ import annotations

import numpy as np

from sixfold.data.batches import IdPair, IdPairs, join, turn
from sixfold.text import Tokenizer
from sixfold.training.recipe import Recipe

MOST_JOINED = 3  # pairs in one row


def vary(ids: IdPairs, recipe: Recipe, tokenizer: Tokenizer, seed: int) -> IdPairs:
    """Return the pairs in other spellings (BPE-dropout), joined or turned round, as the recipe says.

    The seed decides all of it.
    """
    data = recipe.data
    if data.subword_dropout:
        texts = [tokenizer.decode(side) for source, target, _ in ids for side in (source, target)]
        spelled = tokenizer.sample_batch(texts, data.subword_dropout, seed % 2**32)
        ids = list(map(IdPair, spelled[0::2], spelled[1::2]))
    random = np.random.default_rng(seed)
    if random.random() < data.join:
        ids = join(ids, int(random.integers(2, MOST_JOINED + 1)), data.max_tokens)
    return turn(ids, recipe.train.both_ways, random) if recipe.train.both_ways else ids
