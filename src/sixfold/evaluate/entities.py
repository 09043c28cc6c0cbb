"""How well entities are found: precision, recall and F1 of whole entities, as CoNLL's evaluation counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from sixfold.evaluate.classification import LabelScore, f1_of

Entity = TypeVar("Entity", bound=Hashable)


@dataclass(frozen=True)
class EntityScores:
    """How well entities are found, as fractions: one is right if its start, its end and its label are."""

    precision: float
    recall: float
    f1: float
    labels: tuple[LabelScore, ...]


def score_entities(
    predicted: Iterable[tuple[Entity, str]], expected: Iterable[tuple[Entity, str]]
) -> EntityScores:
    """Score entities, each given by where it stands (in which text, from where to where) and its label."""
    guessed, real = set(predicted), set(expected)
    hits = Counter(label for _, label in guessed & real)
    guesses, there = Counter(label for _, label in guessed), Counter(label for _, label in real)
    labels = tuple(
        LabelScore(
            name,
            hits[name] / max(1, guesses[name]),
            hits[name] / max(1, there[name]),
            f1_of(hits[name], guesses[name], there[name]),
            there[name],
        )
        for name in sorted(guesses.keys() | there.keys())
    )
    total = hits.total()
    return EntityScores(
        total / max(1, len(guessed)), total / max(1, len(real)), f1_of(total, len(guessed), len(real)), labels
    )
