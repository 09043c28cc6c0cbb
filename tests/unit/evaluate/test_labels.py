"""Tests of the metrics of labels, entities and numbers, against independent definitions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from sixfold.data.tagged import entities_of
from sixfold.evaluate.calibration import best_temperature, expected_calibration_error, softmax
from sixfold.evaluate.classification import confusion, one_hot, score_classes, score_numbers
from sixfold.evaluate.entities import score_entities
from sixfold.evaluate.paired_tests import mcnemar, randomised_f1

DRAW = np.random.default_rng()


def test_one_label_a_text_makes_micro_f1_the_accuracy() -> None:
    expected, predicted = DRAW.integers(0, 4, 200), DRAW.integers(0, 4, 200)
    found = score_classes(one_hot(predicted, 4), one_hot(expected, 4), "abcd")
    assert found.micro_f1 == pytest.approx(found.accuracy) == pytest.approx((expected == predicted).mean())
    matrix = confusion(predicted, expected, 4)
    for place, label in enumerate(found.labels):
        hits = matrix[place, place]
        assert label.recall == pytest.approx(hits / max(1, matrix[place].sum()))
        assert label.precision == pytest.approx(hits / max(1, matrix[:, place].sum()))
        harmonic = 2 / (1 / label.precision + 1 / label.recall) if hits else 0
        assert label.f1 == pytest.approx(harmonic)
    assert found.macro_f1 == pytest.approx(np.mean([label.f1 for label in found.labels]))


def test_a_label_that_nobody_has_or_predicts_does_not_count() -> None:
    marks = one_hot(np.array([0, 1, 0]), 3)
    assert score_classes(marks, marks, "abc").macro_f1 == 1


def test_entities_count_whole() -> None:
    expected = entities_of(["B-PER", "I-PER", "O", "B-LOC"])
    predicted = entities_of(["B-PER", "O", "O", "B-LOC"])
    found = score_entities(
        [((each.start, each.end), each.label) for each in predicted],
        [((each.start, each.end), each.label) for each in expected],
    )
    assert (found.precision, found.recall, found.f1) == (0.5, 0.5, 0.5)
    assert [(label.name, label.f1) for label in found.labels] == [("LOC", 1.0), ("PER", 0.0)]


def test_correlations_agree_with_their_definitions() -> None:
    numbers = DRAW.normal(size=100)
    noisy = numbers + DRAW.normal(size=100)
    found = score_numbers(noisy, numbers)
    assert found.pearson == pytest.approx(np.corrcoef(noisy, numbers)[0, 1])
    assert score_numbers(np.exp(numbers), numbers).spearman == pytest.approx(1)
    assert score_numbers(np.array([1.0, 1, 2, 3]), np.array([1.0, 1, 2, 3])).spearman == pytest.approx(1)
    assert score_numbers(np.ones(5), np.arange(5.0)).pearson == 0


def test_the_best_temperature_is_the_one_that_the_answers_were_drawn_with() -> None:
    logits = np.random.default_rng(1).normal(size=(40_000, 4)) * 3
    chances = softmax(logits / 2)
    expected = (chances.cumsum(axis=1) > np.random.default_rng(2).random((len(chances), 1))).argmax(axis=1)
    temperature = best_temperature(logits, expected)
    assert temperature == pytest.approx(2, abs=0.1)
    assert expected_calibration_error(softmax(logits / temperature), expected) < 0.02
    assert expected_calibration_error(softmax(logits), expected) > 0.05


def test_mcnemar_sums_the_tail_of_the_coin() -> None:
    for better, worse in product(range(5), range(5)):
        first = np.array([True] * better + [False] * worse + [True] * 7)
        second = np.array([False] * better + [True] * worse + [True] * 7)
        total = better + worse
        tail = sum(math.comb(total, k) for k in range(min(better, worse) + 1)) / 2**total
        assert mcnemar(first, second) == pytest.approx(min(1, 2 * tail))


def test_a_system_is_no_better_than_itself_and_much_better_than_nothing() -> None:
    counts = np.array([[1, 1, 1]] * 60)
    assert randomised_f1(counts, counts) == 1
    assert randomised_f1(counts, np.array([[0, 1, 1]] * 60)) < 0.001
