"""Batches within a token budget: which texts are decoded together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from sixfold.decode.engine import padded_length

BATCH_TOKENS = 4096  # source tokens times hypotheses in one batch
MANY_BATCHES = 8  # from this number on, starting other processes is worthwhile
FEWEST_TEXTS = 16  # per batch; with fewer another process is not worthwhile


def of_one_length(lengths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yield the indices of texts, longest first, in batches of one padded length, without texts of length 0."""
    for padded, group in groupby(longest_first(lengths), key=lambda i: padded_length(lengths[i] + 1)):
        texts, size = list(group), max(1, BATCH_TOKENS // (padded * width))
        yield from (texts[begin : begin + size] for begin in range(0, len(texts), size))


def of_any_length(lengths: Sequence[int], width: int, num_workers: int) -> Iterator[list[int]]:
    """Yield the indices of texts, longest first, in batches of any lengths, several for each worker."""
    order, begin = longest_first(lengths), 0
    share = -(-len(order) // (MANY_BATCHES * num_workers)) if num_workers > 1 else len(order)
    while begin < len(order):
        size = max(1, BATCH_TOKENS // (padded_length(lengths[order[begin]] + 1) * width))
        end = begin + min(size, max(share, FEWEST_TEXTS))
        yield order[begin:end]
        begin = end


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Return the indices of non-empty texts, longest first."""
    return sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
