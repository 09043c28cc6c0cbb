"""How well labels are predicted: accuracy, F1, the confusion matrix, and how numbers agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True)
class LabelScore:
    """How well one label is predicted."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int  # texts that have it


@dataclass(frozen=True)
class ClassScores:
    """How well labels are predicted, as fractions."""

    accuracy: float  # texts whose labels are all right
    macro_f1: float  # the mean over labels
    micro_f1: float  # over all decisions; with one label a text this is the accuracy
    labels: tuple[LabelScore, ...]


def f1_of(hits: float, predicted: float, expected: float) -> float:
    """Return the harmonic mean of precision and recall; 0 where there are no hits."""
    return 2 * hits / (predicted + expected) if hits else 0.0


def score_classes(predicted: Marks, expected: Marks, names: Sequence[str]) -> ClassScores:
    """Score predictions (texts, labels) against references, which mark the labels of each text.

    Labels that neither predictions nor references have are left out of the mean.
    """
    hits = (predicted & expected).sum(axis=0)
    guessed, real = predicted.sum(axis=0), expected.sum(axis=0)
    labels = tuple(
        LabelScore(name, hit / max(1, guess), hit / max(1, there), f1_of(hit, guess, there), there)
        for name, hit, guess, there in zip(names, hits.tolist(), guessed.tolist(), real.tolist(), strict=True)
    )
    counted = [label.f1 for label, guess in zip(labels, guessed.tolist(), strict=True) if label.support or guess]
    return ClassScores(
        accuracy=float((predicted == expected).all(axis=1).mean()),
        macro_f1=float(np.mean(counted)) if counted else 0.0,
        micro_f1=f1_of(int(hits.sum()), int(guessed.sum()), int(real.sum())),
        labels=labels,
    )


def one_hot(places: Places, count: int) -> Marks:
    """Return marks (texts, labels) for one label a text."""
    return places[:, None] == np.arange(count)[None, :]


def confusion(predicted: Places, expected: Places, count: int) -> Places:
    """Return how often each label (rows) was predicted as each (columns)."""
    matrix = np.zeros((count, count), dtype=np.int64)
    np.add.at(matrix, (expected, predicted), 1)
    return matrix


@dataclass(frozen=True)
class NumberScores:
    """How well numbers are predicted."""

    pearson: float
    spearman: float
    mean_absolute_error: float


def score_numbers(predicted: Numbers, expected: Numbers) -> NumberScores:
    """Score predicted numbers against references."""
    return NumberScores(
        correlation(predicted, expected),
        correlation(ranks(predicted), ranks(expected)),
        float(np.abs(predicted - expected).mean()),
    )


def correlation(first: Numbers, second: Numbers) -> float:
    """Return Pearson's correlation; 0 where one of the two never changes."""
    left, right = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((left**2).sum() * (right**2).sum()))
    return float((left * right).sum()) / scale if scale > 0 else 0.0


def ranks(numbers: Numbers) -> Numbers:
    """Return the rank of each number; equal ones share the mean of theirs."""
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
