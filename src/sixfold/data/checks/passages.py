"""Passages of a test set that stand in other text: runs of words, whatever the case, the spacing and the signs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from sixfold.data.hash_sets import Hashes, Mask, contains
from sixfold.text.scripts import RANGES

PASSAGE_WORDS = 13  # as Brown et al. (2020) chose for GPT-3: shorter runs of words occur by chance
WITHOUT_SPACES = "".join(f"{first}-{last}" for first, last, _ in RANGES)
WORDS = re.compile(rf"[{WITHOUT_SPACES}]|[^\W{WITHOUT_SPACES}]+")
FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that a product loses nothing
NO_PASSAGE = np.uint64(0)

Numbers = NDArray[np.int64]


def words_of(text: str) -> list[str]:
    """Return the words of a text; in scripts without spaces every character is one."""
    return WORDS.findall(text.casefold())


class Passages:
    """All runs of so many words of a test set, as sorted hashes."""

    def __init__(self, batches: Iterable[tuple[Sequence[str], Sequence[int]]]) -> None:
        found = [hashes_of([words_of(line) for line in lines], documents)[0] for lines, documents in batches]
        hashes = np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.uint64)
        self.hashes = hashes[hashes != NO_PASSAGE]

    def lines_in(self, lines: Sequence[str], documents: Sequence[int]) -> Mask:
        """Say of consecutive lines, each of a document with that number, which have a passage of the test set."""
        hashes, line_of_word = hashes_of([words_of(line) for line in lines], documents)
        first_words = np.flatnonzero(contains(self.hashes, hashes)) if len(hashes) else np.zeros(0, dtype=np.int64)
        touched = np.zeros(len(lines), dtype=bool)
        touched[line_of_word[(first_words[:, None] + np.arange(PASSAGE_WORDS)).ravel()]] = True
        return touched


def hashes_of(words: Sequence[Sequence[str]], documents: Sequence[int]) -> tuple[Hashes, Numbers]:
    """Return the hash of the passage that begins at each word, and the line of each word.

    Python's hashes differ from process to process, which does not matter here. A passage that would run from one
    document into another has the hash NO_PASSAGE.
    """
    counts = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    line_of_word = np.repeat(np.arange(len(words)), counts)
    of_words = np.fromiter(map(hash, chain.from_iterable(words)), dtype=np.int64, count=int(counts.sum()))
    num_passages = max(0, len(of_words) - PASSAGE_WORDS + 1)
    hashes = np.zeros(num_passages, dtype=np.uint64)
    for place in range(PASSAGE_WORDS):
        hashes = hashes * FACTOR + of_words.view(np.uint64)[place : place + num_passages]
    document = np.asarray(documents, dtype=np.int64)[line_of_word]
    crosses = document[:num_passages] != document[PASSAGE_WORDS - 1 :][:num_passages]
    hashes[crosses] = NO_PASSAGE
    return hashes, line_of_word
