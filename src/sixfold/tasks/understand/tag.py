"""Tag: texts with a tag for each word in, an encoder that tags words, or finds entities, out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from sixfold.data.batches import pad
from sixfold.data.checks.labelled import REPAIRED, WIDENED, Labelled
from sixfold.data.content import kinds_of
from sixfold.data.shards import Columns, Record, Records, Values, token_type
from sixfold.data.tagged import TaggedText, TaggedTexts, are_entities, entities_of, open_tagged
from sixfold.evaluate.entities import score_entities
from sixfold.models.folder import Labels
from sixfold.settings import Overrides
from sixfold.tasks.understand.learner import NO_TARGET, EncoderLearner
from sixfold.tasks.understand.processor import EncoderProcessor, encode_words
from sixfold.tasks.understand.recipe import UnderstandRecipe
from sixfold.tasks.understand.survey import Survey
from sixfold.tasks.understand.task import UnderstandTask
from sixfold.training.task import Batch, Inputs, Opening, Sample, Scores

if TYPE_CHECKING:
    from sixfold.tasks.understand.tagger import Tagger

SHOWN_WORDS = 25
UNKNOWN = -2  # a tag that only validation examples have: never learned, and always counted as wrong


class Tag(UnderstandTask[TaggedText, UnderstandRecipe]):
    """The task of tagging words."""

    name = "tag"
    recipe = UnderstandRecipe

    def detect(self, inputs: Inputs) -> bool:
        """Words with their tags in columns, or JSON Lines with spans or tags."""
        return kinds_of(inputs) == {"tags"}

    def read(self, inputs: Inputs, overrides: Overrides) -> TaggedTexts:
        """Open tagged texts."""
        del overrides
        return open_tagged(inputs)

    def texts_of(self, example: TaggedText) -> Sequence[str]:
        """Return the text."""
        return (example.text,)

    def labels_of(self, example: TaggedText) -> Sequence[str]:
        """Return the tags of all words."""
        return example.tags

    def checked(self, example: TaggedText) -> Labelled:
        """Return what the check looks at: the labels of entities, or the tags of words."""
        faults = ((REPAIRED,) if example.num_repaired else ()) + ((WIDENED,) if example.num_widened else ())
        labels = (
            tuple(each.label for each in entities_of(example.tags)) if are_entities(example.tags) else example.tags
        )
        return Labelled((example.text,), labels, " ".join(example.tags), faults)

    def labels(self, survey: Survey[TaggedText], recipe: UnderstandRecipe) -> Labels:
        """Return the tags; those of entities come with I-X for every B-X."""
        del recipe
        names = set(survey.labels)
        if are_entities(names):
            names |= {"O"} | {f"I-{name[2:]}" for name in names if name != "O"}
        return Labels(names=tuple(sorted(names)))

    def columns(self, processor: EncoderProcessor) -> Columns:
        """Return tokens, and the tag of each word at its first token."""
        return {"tokens": token_type(processor.tokenizer.vocabulary), "tags": "<i4"}

    def encode(self, examples: Sequence[TaggedText], processor: EncoderProcessor) -> Iterator[tuple[Record, bool]]:
        """Yield the row of each text, with the tag of each word at its first token."""
        assert processor.labels is not None
        places = {name: place for place, name in enumerate(processor.labels.names)}
        for example in examples:
            words = encode_words(processor.tokenizer, [example.text[start:end] for start, end in example.words])
            row = processor.rows.one([token for word in words for token in word])
            tags = [NO_TARGET]
            for word, tag in zip(words, example.tags, strict=True):
                tags += [places.get(tag, UNKNOWN), *[NO_TARGET] * (len(word) - 1)]
            tags = [*tags[: len(row.tokens) - 1], NO_TARGET]
            yield Record({"tokens": row.tokens, "tags": tags}, example.line), row.is_cut

    def learner(self, recipe: UnderstandRecipe, processor: EncoderProcessor) -> TagLearner:
        """Return what the loop sees."""
        return TagLearner(recipe, processor)

    def open(self, opening: Opening) -> Tagger:
        """Return the tagger of a model folder."""
        from sixfold.tasks.understand.tagger import Tagger

        return Tagger.load(opening.folder, opening.device, opening.precision)

    def describe(self, surveyed: Survey[TaggedText], recipe: UnderstandRecipe) -> Iterator[str]:
        """Yield a description of the data and its tags."""
        yield from super().describe(surveyed, recipe)
        what = "entities" if are_entities(surveyed.labels) else "words"
        kinds = {tag[2:] for tag in surveyed.labels if tag != "O"} if what == "entities" else set(surveyed.labels)
        shown = ", ".join(sorted(kinds)[:8]) + (f", … ({len(kinds):,} in all)" if len(kinds) > 8 else "")
        yield f"{surveyed.num_targets:,} words; {what} are tagged: {shown}"

    def concerns(self, surveyed: Survey[TaggedText], recipe: UnderstandRecipe) -> Iterator[str]:
        """Yield what was repaired."""
        del recipe
        repaired = sum(example.num_repaired for example in surveyed.sample)
        widened = sum(example.num_widened for example in surveyed.sample)
        if repaired:
            yield f"{repaired:,} tags of the sample cannot follow those before them: such an I-X is read as B-X"
        if widened:
            yield f"{widened:,} spans of the sample begin or end inside a word; they are widened to whole words"


class TagLearner(EncoderLearner):
    """Tagged texts with a recipe and a processor."""

    head = "tag"

    @property
    def names(self) -> tuple[str, ...]:
        """The tags."""
        return cast("Labels", self.processor.labels).names

    def targets(self, records: Records, seed: int) -> tuple[dict[str, Tensor], int]:
        """Return the tag (B, T) of each word at its first token."""
        del seed  # nothing is random
        tags = torch.from_numpy(pad([record["tags"] for record in records.values], NO_TARGET)).clamp_min(NO_TARGET)
        return {"tags": tags}, int((tags != NO_TARGET).sum())

    def loss_of(self, answers: Tensor, batch: Batch) -> Tensor:
        """Return the cross-entropy of the tags."""
        return F.cross_entropy(
            answers.flatten(0, 1), batch.tensors["tags"].flatten(), ignore_index=NO_TARGET, reduction="sum"
        )

    def score(self, answers: Sequence[NDArray[Any]], records: Sequence[Values]) -> Scores:
        """Return the F1 of entities, or the accuracy of tags."""
        expected = [record["tags"][record["tags"] != NO_TARGET] for record in records]
        predicted = [
            answer.argmax(axis=-1)[record["tags"] != NO_TARGET]
            for answer, record in zip(answers, records, strict=True)
        ]
        accuracy = float(np.mean(np.concatenate(predicted) == np.concatenate(expected)))
        sample = self.sample(predicted, records)
        if not are_entities(self.names):
            return Scores("accuracy", 100 * accuracy, 0.05, "held-out words", sample, decimals=2)
        found = score_entities(self.entities(predicted), self.entities(expected))
        details = f"precision {100 * found.precision:.1f}, recall {100 * found.recall:.1f}"
        return Scores("entity F1", 100 * found.f1, 0.5, "held-out texts, whole entities", sample, details=details)

    def entities(self, rows: Sequence[NDArray[Any]]) -> Iterator[tuple[tuple[int, int, int], str]]:
        """Yield the entities of all texts: where each stands, and its label."""
        for number, row in enumerate(rows):
            for entity in entities_of([self.names[place] if place >= 0 else "O" for place in row.tolist()]):
                yield (number, entity.start, entity.end), entity.label

    def sample(self, predicted: Sequence[NDArray[Any]], records: Sequence[Values]) -> Sample:
        """Return the tags of a held-out text."""
        middle = len(records) // 2
        record = records[middle]
        expected = record["tags"][record["tags"] != NO_TARGET].tolist()[:SHOWN_WORDS]
        text = self.processor.tokenizer.decode(record["tokens"].tolist())
        return Sample(
            " ".join(text.split()[:SHOWN_WORDS]),
            " ".join(self.names[place] for place in predicted[middle].tolist()[:SHOWN_WORDS]),
            " ".join(self.names[place] if place >= 0 else "?" for place in expected),
        )
