"""How well a classifier or a tagger does on a test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sixfold.callbacks import OnProgress
from sixfold.data.labelled import LabelledText, LabelledTexts
from sixfold.data.tables import is_number
from sixfold.data.tagged import TaggedTexts, are_entities, entities_of
from sixfold.errors import ConfigError, DataError
from sixfold.evaluate.calibration import expected_calibration_error
from sixfold.evaluate.classification import (
    LabelScore,
    confusion,
    score_classes,
    score_numbers,
)
from sixfold.evaluate.entities import score_entities
from sixfold.evaluate.metrics import Metric
from sixfold.evaluate.paired_tests import mcnemar, randomised_f1, said
from sixfold.models.folder import Labels
from sixfold.tasks.understand.classifier import Classification, Classifier
from sixfold.tasks.understand.tagger import Tagger, TextToTag

Marks = NDArray[np.bool_]

OTHER_LABELS = "Give texts that are labelled as those that it was trained on."


@dataclass(frozen=True)
class UnderstandEvaluation:
    """What a model scored on a test set."""

    name: str
    num_examples: int
    metrics: tuple[Metric, ...]
    labels: tuple[LabelScore, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()  # rows: the label it is; columns: the label that was predicted
    outcomes: Sequence[Sequence[int]] = ()  # of each example: hits, predicted, expected

    @property
    def primary(self) -> Metric:
        """What two models are compared by."""
        return self.metrics[0]


def evaluate_classifier(
    model: Classifier, name: str, examples: LabelledTexts, on_progress: OnProgress
) -> UnderstandEvaluation:
    """Score a classifier on labelled texts."""
    texts = read_all(examples)
    refuse_other_labels(model.labels, texts)
    seconds = [each.second for each in texts if each.second is not None]
    found = model.classify([each.text for each in texts], seconds or None, on_progress)
    if model.labels.choice == "number":
        return evaluate_numbers(name, found, [float(each.labels[0]) for each in texts])
    return evaluate_labels(model, name, found, [each.labels for each in texts])


def read_all(examples: LabelledTexts | TaggedTexts) -> list[Any]:
    """Return all examples; there must be one."""
    if texts := list(examples):
        return texts
    raise DataError(f"{', '.join(map(str, examples.paths))}: there are no examples.", "Give some to evaluate on.")


def refuse_other_labels(own: Labels, texts: Sequence[LabelledText]) -> None:
    """Raise if texts are not labelled as a model labels them: no score would mean anything."""
    odd = next((each for each in texts if own.choice != "several" and len(each.labels) != 1), None)
    if odd is not None:
        problem = f"Line {odd.line:,}, {odd.text!r:.40}, has {len(odd.labels)} labels; the model gives a text one."
        raise DataError(problem, OTHER_LABELS)
    found = {label for each in texts for label in each.labels}
    if own.choice == "number":
        word = next((label for label in found if not is_number(label)), None)
        if word is not None:
            raise DataError(f"The model predicts numbers, but {word!r:.40} is not a number.", OTHER_LABELS)
    elif found and found.isdisjoint(own.names):
        shown = ", ".join(own.names[:5]) + (", …" if len(own.names) > 5 else "")
        raise DataError(
            f"The model knows none of these labels, such as {min(found)!r:.40}; it knows: {shown}.", OTHER_LABELS
        )


def evaluate_numbers(
    name: str, found: Sequence[Classification], expected: Sequence[float]
) -> UnderstandEvaluation:
    """Score predicted numbers."""
    predicted = np.array([each.number for each in found], dtype=np.float64)
    scores = score_numbers(predicted, np.array(expected, dtype=np.float64))
    metrics = (
        Metric("Pearson correlation", 100 * scores.pearson, "in percent"),
        Metric("Spearman correlation", 100 * scores.spearman, "in percent, equal numbers share their rank"),
        Metric("mean absolute error", scores.mean_absolute_error, "in the unit of the numbers"),
    )
    return UnderstandEvaluation(name, len(found), metrics)


def evaluate_labels(
    model: Classifier, name: str, found: Sequence[Classification], expected: Sequence[Sequence[str]]
) -> UnderstandEvaluation:
    """Score predicted labels; labels that the model does not know are always wrong."""
    names = [*model.labels.names, *sorted({label for each in expected for label in each} - {*model.labels.names})]
    places = {label: place for place, label in enumerate(names)}
    predicted = marks([[label.name for label in each.labels] for each in found], places)
    real = marks(expected, places)
    scores = score_classes(predicted, real, names)
    outcomes = np.stack([(predicted & real).sum(1), predicted.sum(1), real.sum(1)], axis=1).tolist()
    macro = Metric("macro F1", 100 * scores.macro_f1, "mean over labels that occur")
    micro = Metric("micro F1", 100 * scores.micro_f1, "over all decisions")
    accuracy = Metric("accuracy", 100 * scores.accuracy, "texts whose labels are all right")
    if model.labels.choice == "several":
        return UnderstandEvaluation(name, len(found), (micro, macro, accuracy), scores.labels, (), outcomes)
    truth = real.argmax(axis=1)
    chances = np.zeros((len(found), len(names)))
    for row, each in zip(chances, found, strict=True):
        for label in each.probabilities:
            row[places[label.name]] = label.probability
    error = Metric(
        "calibration error",
        100 * expected_calibration_error(chances, truth),
        f"expected, 15 bins, in percent; temperature {model.labels.temperature:.2f}",
    )
    matrix = confusion(predicted.argmax(axis=1), truth, len(names)).tolist()
    return UnderstandEvaluation(
        name, len(found), (accuracy, macro, error), scores.labels, tuple(map(tuple, matrix)), outcomes
    )


def marks(labels: Sequence[Sequence[str]], places: dict[str, int]) -> Marks:
    """Return which labels each text has (texts, labels)."""
    found = np.zeros((len(labels), len(places)), dtype=bool)
    for row, names in zip(found, labels, strict=True):
        row[[places[name] for name in names]] = True
    return found


def evaluate_tagger(
    model: Tagger, name: str, examples: TaggedTexts, on_progress: OnProgress
) -> UnderstandEvaluation:
    """Score a tagger on tagged texts; words that it does not read are wrong."""
    texts = read_all(examples)
    found = model.tag_words([TextToTag(each.text, each.words) for each in texts], on_progress)
    expected = [each.tags for each in texts]
    predicted = [
        [*(word.tag for word in each.words), *["O"] * (len(tags) - len(each.words))]
        for each, tags in zip(found, expected, strict=True)
    ]
    right = [sum(map(str.__eq__, *pair)) for pair in zip(predicted, expected, strict=True)]
    sizes = [len(tags) for tags in expected]
    accuracy = Metric("accuracy", 100 * sum(right) / max(1, sum(sizes)), "of words")
    if not are_entities(model.labels.names):
        outcomes = list(zip(right, sizes, sizes, strict=True))
        return UnderstandEvaluation(name, len(texts), (accuracy,), outcomes=outcomes)
    guessed, real = entities(predicted), entities(expected)
    scores = score_entities(join(guessed), join(real))
    metrics = (
        Metric("entity F1", 100 * scores.f1, "whole entities, as CoNLL's evaluation and seqeval count them"),
        Metric("precision", 100 * scores.precision, "of predicted entities"),
        Metric("recall", 100 * scores.recall, "of expected entities"),
        accuracy,
    )
    counts = [(len(one & other), len(one), len(other)) for one, other in zip(guessed, real, strict=True)]
    return UnderstandEvaluation(name, len(texts), metrics, scores.labels, (), counts)


Found = set[tuple[tuple[int, int, int], str]]  # entities: which text, from where to where, and the label


def entities(rows: Sequence[Sequence[str]]) -> list[Found]:
    """Return the entities of each text."""
    return [
        {((number, each.start, each.end), each.label) for each in entities_of(tags)}
        for number, tags in enumerate(rows)
    ]


def join(found: Sequence[Found]) -> Found:
    """Return the entities of all texts."""
    return set().union(*found)


def compared(first: UnderstandEvaluation, second: UnderstandEvaluation) -> str:
    """Say whether the first model is better than the second on the same examples."""
    if first.primary.name != second.primary.name:
        raise ConfigError(
            f"{first.name} is measured by {first.primary.name}, {second.name} by {second.primary.name}.",
            "--against takes a model of the same kind.",
        )
    if not first.outcomes:
        raise ConfigError("--against cannot compare models that predict numbers.", "Evaluate each alone.")
    counts, others = (np.array(each.outcomes, dtype=np.int64) for each in (first, second))
    answers_once = first.primary.name == "accuracy" and bool(first.confusion)
    chance = mcnemar(counts[:, 0] > 0, others[:, 0] > 0) if answers_once else randomised_f1(counts, others)
    return said(first.primary.name, first.primary.value, second.primary.value, chance, second.name)
