"""Calibration: whether a model that says 80% is right 80% of the time (Guo et al., 2017).

Shapes: N texts, L labels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

NUM_BINS = 15
COLDEST, HOTTEST, NUM_HALVINGS = 0.05, 20.0, 60
GOLDEN = (5**0.5 - 1) / 2


def softmax(logits: Numbers) -> Numbers:
    """Return probabilities (N, L)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def expected_calibration_error(probabilities: Numbers, expected: Places) -> float:
    """Return the mean distance of confidence and accuracy over texts in bins of equal confidence."""
    confidence = probabilities.max(axis=1)
    is_right = probabilities.argmax(axis=1) == expected
    bins = np.minimum((confidence * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    gaps = np.bincount(bins, weights=is_right - confidence, minlength=NUM_BINS)
    return float(np.abs(gaps).sum() / len(expected))


def best_temperature(logits: Numbers, expected: Places) -> float:
    """Return what logits are best divided by: the likelihood of the references is highest."""
    rows = np.arange(len(expected))

    def loss(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        largest = scaled.max(axis=1)
        normaliser = largest + np.log(np.exp(scaled - largest[:, None]).sum(axis=1))
        return float((normaliser - scaled[rows, expected]).mean())

    return float(np.exp(smallest(loss, np.log(COLDEST), np.log(HOTTEST))))


def smallest(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function with one valley is smallest, by golden-section search."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(NUM_HALVINGS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
