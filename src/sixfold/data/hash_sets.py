"""Sets of more texts than fit in memory: each text is a 64-bit hash in sorted arrays.

Ten million pairs take 80 MB, and 160 MB while two arrays are merged. The probability that any two of ten million
different texts share a hash is three in a million.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]


def hash_texts(texts: Iterable[str]) -> Hashes:
    """Hash texts, the same way in every process and on every machine."""
    digests = b"".join([blake2b(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64, copy=False)


def contains(sorted_hashes: Hashes, hashes: Hashes) -> Mask:
    """Return for each hash whether it is among the sorted ones."""
    if not len(sorted_hashes):
        return np.zeros(len(hashes), dtype=bool)
    places = np.searchsorted(sorted_hashes, hashes).clip(max=len(sorted_hashes) - 1)
    found: Mask = sorted_hashes[places] == hashes
    return found


class SeenHashes:
    """A growing set of hashes, in a few sorted arrays, each less than half as long as the one before."""

    def __init__(self) -> None:
        self.levels: list[Hashes] = []

    def add(self, hashes: Hashes) -> Mask:
        """Add hashes, and return for each whether it was in the set, or earlier among these."""
        new, first_places = np.unique(hashes, return_index=True)
        is_known = np.zeros(len(new), dtype=bool)
        for level in self.levels:  # looking up sorted hashes in sorted hashes reuses cache lines
            is_known |= contains(level, new)
        seen = np.ones(len(hashes), dtype=bool)
        seen[first_places] = is_known
        if not is_known.all():
            self.insert(new[~is_known])
        return seen

    def insert(self, level: Hashes) -> None:
        """Add a sorted array, merged with those that are not much longer, so that there are few."""
        while self.levels and len(self.levels[-1]) <= 2 * len(level):
            level = np.concatenate([self.levels.pop(), level])
            level.sort(kind="stable")  # merges sorted runs in one pass
        self.levels.append(level)
