"""Consensus: of the hypotheses that a search found, prefer the one that is most like the others.

The most probable translation may be short, or odd in a place; what probable ones have in common is neither
(minimum Bayes risk, Kumar and Byrne 2004). How alike two texts are is what chrF says of them (Popović 2015): the
characters, and sequences of up to six, that they share. What one has and the other lacks counts the same for
both; chrF's usual weight on the longer text would make translations longer than the model wants them.

Shapes: K hypotheses, G sequences of characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sixfold.decode.search import Hypothesis

LONGEST_SEQUENCE = 6  # of characters
MOST_COMPARED = 16  # the best; of more, each would be compared with each for little

Numbers = NDArray[np.float64]


def by_consensus(found: Sequence[Hypothesis], texts: Sequence[str], sharpness: float) -> list[Hypothesis]:
    """Return hypotheses, given best first, by how much they agree with each other; the last of many stay last."""
    if not found:
        return []
    compared, rest = found[:MOST_COMPARED], found[MOST_COMPARED:]
    agreements = likeness(texts[: len(compared)]) @ weights(compared, sharpness)
    agreed = [replace(each, agreement=float(a)) for each, a in zip(compared, agreements, strict=True)]
    return [*sorted(agreed, key=lambda hypothesis: -hypothesis.agreement), *rest]


def weights(found: Sequence[Hypothesis], sharpness: float) -> Numbers:
    """Return what the opinion of each hypothesis counts (K,): the more, the better its score; 1 together."""
    scores = sharpness * np.array([hypothesis.score + hypothesis.read_back for hypothesis in found])
    shares = np.exp(scores - scores.max())
    return np.asarray(shares / shares.sum())


def likeness(texts: Sequence[str]) -> Numbers:
    """Return how alike each two texts are (K, K), from 0 to 1: which share of their sequences both have."""
    stripped = ["".join(text.split()) for text in texts]
    precision, recall, num_lengths = np.zeros((3, len(texts), len(texts)))
    for length in range(1, LONGEST_SEQUENCE + 1):
        counts = count_sequences(stripped, length)
        totals = counts.sum(axis=1)
        shared = np.stack([np.minimum(row, counts).sum(axis=1) for row in counts])
        precision += shared / totals.clip(1)[:, None]
        recall += shared / totals.clip(1)
        num_lengths += np.minimum.outer(totals, totals) > 0  # of which both texts have sequences
    return np.asarray(2 * precision * recall / ((precision + recall) * num_lengths).clip(1e-12))


def count_sequences(texts: Sequence[str], length: int) -> Numbers:
    """Return how often each sequence of so many characters that any text has stands in each text (K, G)."""
    places: dict[str, int] = {}
    rows = [
        [places.setdefault(text[i : i + length], len(places)) for i in range(len(text) - length + 1)]
        for text in texts
    ]
    return np.stack([np.bincount(row, minlength=len(places)) for row in rows]).astype(np.float64)
