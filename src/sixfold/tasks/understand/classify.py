"""Classify: texts with labels in, an encoder that gives a text its label, its labels or a number out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from sixfold.callbacks import OnProgress
from sixfold.data.checks.labelled import Labelled
from sixfold.data.content import kinds_of
from sixfold.data.labelled import Columns, LabelledText, LabelledTexts, is_folder_of_classes, open_labelled
from sixfold.data.shards import Columns as ShardColumns
from sixfold.data.shards import Record, Records, Values, token_type
from sixfold.data.tables import is_number
from sixfold.errors import DataError
from sixfold.evaluate.calibration import best_temperature, expected_calibration_error, softmax
from sixfold.evaluate.classification import one_hot, score_classes, score_numbers
from sixfold.models.folder import Json, Labels
from sixfold.settings import Overrides
from sixfold.tasks.understand.learner import EncoderLearner
from sixfold.tasks.understand.processor import EncoderProcessor
from sixfold.tasks.understand.recipe import EncodedData, UnderstandRecipe, UnderstandTrainConfig
from sixfold.tasks.understand.survey import Survey
from sixfold.tasks.understand.task import Examples, UnderstandTask
from sixfold.training.base import Base
from sixfold.training.task import Batch, Inputs, Opening, Published, Sample, Scores

if TYPE_CHECKING:
    from sixfold.tasks.understand.classifier import Classifier

Choice = Literal["one", "several", "number"]
Answers = Choice | Literal["auto"]

MOST_CLASSES = 1000
MOST_WHOLE_NUMBERS = 20  # different ones: with more, numbers are amounts and no classes
RARE = 5  # texts: a class with fewer cannot be learned
SHOWN_CHARACTERS = 200


class ClassifyData(EncodedData):
    """Which columns hold what, and what the labels are."""

    text: str = Field("", description="column of the text; empty: told by its name or content")
    second_text: str = Field("", description="column of a second text that is judged together with the first")
    label: str = Field("", description="column of the label; empty: told by its name or content")
    separator: str = Field("", description="what stands between several labels in one cell")
    labels: Answers = Field("auto", description="one label a text, several (or none), or a number")


class ClassifyTrainConfig(UnderstandTrainConfig):
    """How to train a classifier."""

    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced: rare classes count as much as common ones"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="ε of label smoothing")


class ClassifyRecipe(UnderstandRecipe):
    """All the choices of a run."""

    data: ClassifyData = ClassifyData()
    train: ClassifyTrainConfig = ClassifyTrainConfig()


class Classify(UnderstandTask[LabelledText, ClassifyRecipe]):
    """The task of labelling texts."""

    name = "classify"
    recipe = ClassifyRecipe

    def detect(self, inputs: Inputs) -> bool:
        """Tables with a text and a label, or folders named after their class."""
        if len(inputs) == 1 and is_folder_of_classes(inputs[0]):
            return kinds_of(inputs) == {"plain"}
        return kinds_of(inputs) == {"labels"}

    def read(self, inputs: Inputs, overrides: Overrides) -> LabelledTexts:
        """Open labelled texts."""
        data = overrides.get("data", {})
        names = {"text": "text", "second_text": "second", "label": "label", "separator": "separator"}
        return open_labelled(inputs, Columns(**{ours: str(data.get(key, "")) for key, ours in names.items()}))

    def texts_of(self, example: LabelledText) -> Sequence[str]:
        """Return the text, or both texts."""
        return example.texts

    def labels_of(self, example: LabelledText) -> Sequence[str]:
        """Return its labels."""
        return example.labels

    def stratum_of(self, example: LabelledText) -> str:
        """Return the label."""
        return example.labels[0] if example.labels else ""

    def survey(self, examples: Examples[LabelledText], seed: int, on_progress: OnProgress) -> Survey[LabelledText]:
        """Look at all examples once; texts with amounts are of one kind, however many amounts there are."""
        found = super().survey(examples, seed, on_progress)
        return replace(found, strata=np.zeros_like(found.strata)) if are_amounts(found) else found

    def checked(self, example: LabelledText) -> Labelled:
        """Return what the check looks at."""
        return Labelled(example.texts, example.labels, "\0".join(sorted(example.labels)))

    def labels(self, survey: Survey[LabelledText], recipe: ClassifyRecipe) -> Labels:
        """Return the names of the classes in order, or the scale of numbers."""
        choice = choice_of(survey, recipe.data.labels)
        if choice == "number":
            numbers = np.array([float(name) for name in survey.labels.elements()])
            return Labels(
                names=("number",),
                choice="number",
                mean=float(numbers.mean()),
                deviation=float(numbers.std()) or 1.0,
            )
        names = tuple(sorted(survey.labels, key=sort_key))
        thresholds = (0.5,) * len(names) if choice == "several" else ()
        return Labels(names=names, choice=choice, thresholds=thresholds)

    def fit(self, survey: Survey[LabelledText], recipe: ClassifyRecipe, base: Base | None) -> EncoderProcessor:
        """Learn or take over subwords, name the labels, and weigh them if the recipe says so."""
        processor = super().fit(survey, recipe, base)
        labels = cast("Labels", processor.labels)
        if recipe.train.class_weights == "none" or labels.choice == "number":
            return processor
        even = survey.labels.total() / len(labels.names)
        return processor.with_labels(labels, tuple(even / survey.labels[name] for name in labels.names))

    def columns(self, processor: EncoderProcessor) -> ShardColumns:
        """Return tokens, the segments of two texts, and labels by number, or the number itself."""
        assert processor.labels is not None
        is_number = processor.labels.choice == "number"
        return {
            "tokens": token_type(processor.tokenizer.vocabulary),
            "types": "|u1",
            "labels": "<f4" if is_number else "<i4",
        }

    def encode(
        self, examples: Sequence[LabelledText], processor: EncoderProcessor
    ) -> Iterator[tuple[Record, bool]]:
        """Yield the row of each text or two, with its labels."""
        first = processor.tokenizer.encode_batch([example.text for example in examples])
        second = processor.tokenizer.encode_batch([example.second or "" for example in examples])
        for example, one, two in zip(examples, first, second, strict=True):
            row = processor.rows.one(one) if example.second is None else processor.rows.two(one, two)
            types = [] if example.second is None else row.types
            labels = label_values(example, cast("Labels", processor.labels))
            columns: dict[str, Any] = {"tokens": row.tokens, "types": types, "labels": labels}
            yield Record(columns, example.line), row.is_cut

    def learner(self, recipe: ClassifyRecipe, processor: EncoderProcessor) -> ClassifyLearner:
        """Return what the loop sees."""
        return ClassifyLearner(recipe, processor)

    def open(self, opening: Opening) -> Classifier:
        """Return the classifier of a model folder."""
        from sixfold.tasks.understand.classifier import Classifier

        return Classifier.load(opening.folder, opening.device, opening.precision)

    def describe(self, surveyed: Survey[LabelledText], recipe: ClassifyRecipe) -> Iterator[str]:
        """Yield a description of the data and its labels."""
        yield from super().describe(surveyed, recipe)
        yield said_of_labels(surveyed, choice_of(surveyed, recipe.data.labels))

    def concerns(self, surveyed: Survey[LabelledText], recipe: ClassifyRecipe) -> Iterator[str]:
        """Yield what is odd about the labels."""
        if choice_of(surveyed, recipe.data.labels) == "number":
            return
        rare = [name for name, count in surveyed.labels.items() if count < RARE]
        if rare:
            yield f"{len(rare)} labels have fewer than {RARE} texts ({', '.join(rare[:5])}): too few to learn them"
        common, largest = surveyed.labels.most_common(1)[0]
        smallest = min(surveyed.labels.values())
        if largest > 10 * smallest and recipe.train.class_weights == "none":
            yield (
                f"the labels are unbalanced ({common!r} has {largest / smallest:,.0f} times the texts of the "
                "rarest): --set train.class_weights=balanced lets rare ones count as much"
            )

    def published_labels(self, processor: EncoderProcessor, published: Published) -> Labels | None:
        """Return the labels with the temperature that was fitted on the validation examples."""
        validation = published.scores.get("validation")
        found = validation.get("temperature") if isinstance(validation, dict) else None
        assert processor.labels is not None
        return processor.labels.model_copy(update={"temperature": found}) if found else processor.labels

    def continues(self, base: Base, processor: EncoderProcessor) -> bool:
        """Return whether the base gives the same labels; its temperature is fitted anew."""
        own = base.info.labels
        assert processor.labels is not None
        return base.info.task == self.name and own is not None and (own.names, own.choice) == (
            processor.labels.names, processor.labels.choice,
        )  # fmt: skip


def choice_of(surveyed: Survey[LabelledText], asked: Answers) -> Choice:
    """Return what the labels are: as asked, or as they look."""
    if not surveyed.labels:
        raise DataError("No text has a label.", "Is data.label the right column?")
    several = surveyed.labels.total() != surveyed.num_examples or has_lists(surveyed)
    if asked != "auto":
        refuse_other_labels(surveyed, asked, several)
        chosen: Choice = asked
    else:
        chosen = "several" if several else "number" if are_amounts(surveyed) else "one"
    if chosen == "one" and len(surveyed.labels) == 1:
        [name] = surveyed.labels
        raise DataError(
            f"All texts have the label {name!r:.40}, so that there is nothing to tell apart.",
            "Give texts with at least two labels.",
        )
    if chosen != "number" and len(surveyed.labels) > MOST_CLASSES:
        raise DataError(
            f"There are {len(surveyed.labels):,} different labels; at most {MOST_CLASSES:,} can be learned.",
            "Is data.label the right column?",
        )
    return chosen


def refuse_other_labels(surveyed: Survey[LabelledText], asked: Choice, several: bool) -> None:
    """Raise if the labels are not what they are said to be."""
    if asked != "several" and several:
        raise DataError(
            f"data.labels={asked}, but some texts have several labels or none.", "Leave data.labels out."
        )
    odd = next((name for name in surveyed.labels if not is_number(name)), None)
    if asked == "number" and odd is not None:
        raise DataError(f"data.labels=number, but {odd!r:.40} is not a number.", "Is data.label the right column?")


def has_lists(surveyed: Survey[LabelledText]) -> bool:
    """Return whether some text has several labels, or none."""
    return any(len(example.labels) != 1 for example in surveyed.sample)


def are_amounts(surveyed: Survey[LabelledText]) -> bool:
    """Return whether labels are numbers of which there are too many, or with fractions, to be classes."""
    if not all(map(is_number, surveyed.labels)):
        return False
    return len(surveyed.labels) > MOST_WHOLE_NUMBERS or any(float(name) % 1 for name in surveyed.labels)


def sort_key(name: str) -> tuple[float, str]:
    """Return what labels are ordered by: numbers by size, others by name."""
    return (float(name) if is_number(name) else float("inf"), name)


def said_of_labels(surveyed: Survey[LabelledText], choice: str) -> str:
    """Say what the labels are and how many texts each has."""
    if choice == "number":
        return "the labels are numbers: a number is predicted (data.labels)"
    counts = ", ".join(f"{name} {count:,}" for name, count in surveyed.labels.most_common(8))
    more = f", … ({len(surveyed.labels):,} in all)" if len(surveyed.labels) > 8 else ""
    how = "one label a text" if choice == "one" else "any number of labels a text"
    return f"{how} (data.labels): {counts}{more}"


def label_values(example: LabelledText, labels: Labels) -> list[float] | list[int]:
    """Return the numbers of an example's labels, or what its number is on the scale that is learned."""
    if labels.choice != "several" and len(example.labels) != 1:
        raise unlike_training(example, f"has {len(example.labels)} labels, not one", "Give each text one label.")
    if labels.choice == "number":
        [number] = example.labels
        if not is_number(number):
            raise unlike_training(example, f"has {number!r:.40}, not a number", "Is data.label the right column?")
        return [(float(number) - labels.mean) / labels.deviation]
    places = {name: place for place, name in enumerate(labels.names)}
    if unknown := [name for name in example.labels if name not in places]:
        raise unlike_training(
            example,
            f"has the label {unknown[0]!r:.40}, which no training example has",
            "Train on examples of every label, or take this one out.",
        )
    return [places[name] for name in example.labels]


def unlike_training(example: LabelledText, found: str, hint: str) -> DataError:
    """Return the error for a validation example: what all training examples have is known."""
    return DataError(f"Line {example.line:,} of the validation examples, {example.text!r:.40}, {found}.", hint)


class ClassifyLearner(EncoderLearner):
    """Labelled texts with a recipe and a processor."""

    head = "class"
    recipe: ClassifyRecipe

    @property
    def choice(self) -> str:
        """What the labels are: one, several, or a number."""
        assert self.processor.labels is not None
        return self.processor.labels.choice

    def targets(self, records: Records, seed: int) -> tuple[dict[str, Tensor], int]:
        """Return the labels (B,) of texts; where there may be several, marks (B, L)."""
        del seed  # nothing is random
        if self.choice == "several":
            return {"labels": torch.from_numpy(marks(records.values, self.num_labels))}, len(records.ids)
        labels = np.concatenate([record["labels"] for record in records.values])
        return {"labels": torch.from_numpy(labels)}, len(records.ids)

    def loss_of(self, answers: Tensor, batch: Batch) -> Tensor:
        """Return the cross-entropy of labels, of each label alone, or the squared error."""
        labels = batch.tensors["labels"]
        if self.choice == "number":
            return F.mse_loss(answers[:, 0], labels, reduction="sum")
        weights = answers.new_tensor(self.processor.label_weights) if self.processor.label_weights else None
        if self.choice == "several":
            loss = F.binary_cross_entropy_with_logits(answers, labels.float(), weights, reduction="sum")
            return loss / self.num_labels
        smoothing = self.recipe.train.label_smoothing if torch.is_grad_enabled() else 0.0
        return F.cross_entropy(answers, labels.long(), weights, reduction="sum", label_smoothing=smoothing)

    def score(self, answers: Sequence[NDArray[Any]], records: Sequence[Values]) -> Scores:
        """Return accuracy and F1, or how numbers agree."""
        logits = np.stack(answers).astype(np.float64)
        scores = {"one": self.score_one, "several": self.score_several, "number": self.score_numbers}
        return scores[self.choice](logits, records)

    def score_one(self, logits: NDArray[Any], records: Sequence[Values]) -> Scores:
        """Return the accuracy, and the temperature with which probabilities are right."""
        assert self.processor.labels is not None
        names = self.processor.labels.names
        expected = np.concatenate([record["labels"] for record in records]).astype(np.int64)
        predicted = logits.argmax(axis=1)
        found = score_classes(one_hot(predicted, len(names)), one_hot(expected, len(names)), names)
        temperature = best_temperature(logits, expected)
        before = expected_calibration_error(softmax(logits), expected)
        after = expected_calibration_error(softmax(logits / temperature), expected)
        facts: dict[str, Json] = {
            "temperature": temperature, "calibration_error_before": before, "calibration_error": after,
        }  # fmt: skip
        details = (
            f"macro F1 {100 * found.macro_f1:.1f}, calibration error {100 * before:.1f}% → {100 * after:.1f}%"
        )
        return self.scores("accuracy", found.accuracy, details, self.sample(records, names[predicted[0]]), facts)

    def score_several(self, logits: NDArray[Any], records: Sequence[Values]) -> Scores:
        """Return the F1 of all decisions."""
        assert self.processor.labels is not None
        names = self.processor.labels.names
        predicted, expected = logits > 0, marks(records, len(names))
        found = score_classes(predicted, expected, names)
        details = f"macro F1 {100 * found.macro_f1:.1f}, all labels right {100 * found.accuracy:.1f}%"
        chosen = ", ".join(name for name, is_there in zip(names, predicted[0], strict=True) if is_there)
        return self.scores("micro F1", found.micro_f1, details, self.sample(records, chosen or "no label"))

    def score_numbers(self, logits: NDArray[Any], records: Sequence[Values]) -> Scores:
        """Return the correlation of predicted and expected numbers."""
        assert self.processor.labels is not None
        scale = self.processor.labels
        expected = np.concatenate([record["labels"] for record in records]).astype(np.float64)
        found = score_numbers(logits[:, 0] * scale.deviation, expected * scale.deviation)
        details = f"Spearman {100 * found.spearman:.1f}, mean absolute error {found.mean_absolute_error:.3g}"
        said = f"{logits[0, 0] * scale.deviation + scale.mean:.3g}"
        return self.scores("Pearson correlation", found.pearson, details, self.sample(records, said))

    def scores(
        self, name: str, value: float, details: str, sample: Sample, facts: dict[str, Json] | None = None
    ) -> Scores:
        """Return a score in percent."""
        chance = 50 / max(1, self.num_validated) ** 0.5
        return Scores(name, 100 * value, chance, "held-out texts", sample, details=details, facts=facts or {})

    def sample(self, records: Sequence[Values], answer: str) -> Sample:
        """Return the first held-out text with its label."""
        first = records[0]
        text = self.processor.tokenizer.decode(first["tokens"].tolist())
        return Sample(" ".join(text.split())[:SHOWN_CHARACTERS], answer, self.expected(first))

    def expected(self, record: Values) -> str:
        """Return the labels of a record as people write them."""
        assert self.processor.labels is not None
        labels = self.processor.labels
        if labels.choice == "number":
            return f"{float(record['labels'][0]) * labels.deviation + labels.mean:.3g}"
        return ", ".join(labels.names[place] for place in record["labels"].tolist()) or "no label"


def marks(records: Sequence[Values], count: int) -> NDArray[np.bool_]:
    """Return which labels each record has (records, labels)."""
    found = np.zeros((len(records), count), dtype=bool)
    for row, record in zip(found, records, strict=True):
        row[record["labels"]] = True
    return found
