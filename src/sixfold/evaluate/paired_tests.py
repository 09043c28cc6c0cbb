"""Is one system better than another on the same examples, or is it chance?

McNemar's test (1947) asks it of right and wrong answers; approximate randomisation (Noreen, 1989) of an F1, which
is no mean over examples.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

SHUFFLES = 10_000
AT_ONCE = 200  # shuffles
SIGNIFICANT = 0.05

Counts = NDArray[np.int64]  # of each example (N, 3): hits, predicted, expected


def mcnemar(is_right: NDArray[np.bool_], was_right: NDArray[np.bool_]) -> float:
    """Return the probability that chance alone explains as large a difference: the exact two-sided test."""
    better, worse = int((is_right & ~was_right).sum()), int((~is_right & was_right).sum())
    total, fewer = better + worse, min(better, worse)
    if total == 0:
        return 1.0
    logs = [math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1) for k in range(fewer + 1)]
    largest = max(logs)
    tail = math.exp(largest - total * math.log(2)) * sum(math.exp(each - largest) for each in logs)
    return min(1.0, 2 * tail)


def randomised_f1(counts: Counts, others: Counts, seed: int = 1) -> float:
    """Return how often the F1 of two systems differ as much when their answers change places at random."""
    draw = np.random.default_rng(seed)
    observed = abs(f1(counts.sum(axis=0)) - f1(others.sum(axis=0)))
    as_large = 0
    for _ in range(SHUFFLES // AT_ONCE):
        swaps = draw.random((AT_ONCE, len(counts))) < 0.5
        moved = swaps @ (others - counts)  # (AT_ONCE, 3)
        first, second = counts.sum(axis=0) + moved, others.sum(axis=0) - moved
        as_large += int((np.abs(f1(first) - f1(second)) >= observed - 1e-12).sum())
    return (as_large + 1) / (SHUFFLES + 1)


def f1(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the F1 of hits, predicted and expected in the last dimension."""
    hits, predicted, expected = counts[..., 0], counts[..., 1], counts[..., 2]
    return np.asarray(2 * hits / np.maximum(predicted + expected, 1), dtype=np.float64)


def said(name: str, value: float, other: float, probability: float, against: str) -> str:
    """Say whether a system is better than another one."""
    better = "better" if value > other else "worse"
    verdict = f"significantly {better} than" if probability < SIGNIFICANT else "not significantly different from"
    return f"{name} {value:.2f} is {verdict} {other:.2f} of {against} (p = {probability:.3g})."
