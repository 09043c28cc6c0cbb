"""What all tasks of encoder-only models share: from files to a run, and the model folder.

A task says how its examples are read, encoded and learned; everything else is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar, cast

import numpy as np

from sixfold.callbacks import OnProgress
from sixfold.data.checks.labelled import Labelled, check_labelled
from sixfold.data.checks.report import CheckRequest, Place, Report, normalised
from sixfold.data.hash_sets import contains, hash_texts
from sixfold.data.shards import Columns, Corpus, Record, ShardWriter
from sixfold.errors import ConfigError, DataError
from sixfold.models.encoder_only import EncoderOnlyConfig
from sixfold.models.folder import Json, Labels, ModelInfo, save_model, weight_files
from sixfold.settings import Overrides
from sixfold.tasks.understand import plan
from sixfold.tasks.understand.card import card
from sixfold.tasks.understand.learner import EncoderLearner
from sixfold.tasks.understand.processor import EncoderProcessor
from sixfold.tasks.understand.recipe import AnyUnderstandRecipe, UnderstandRecipe
from sixfold.tasks.understand.survey import Survey, choose_held_out, survey
from sixfold.training.base import Base, refuse_changed_base
from sixfold.training.card import model_card
from sixfold.training.recipe import Plan
from sixfold.training.task import Given, Inputs, Opaque, Opening, Prepared, Published

SPLITS = ("train", "valid")
CHUNK = 256  # examples encoded at a time

Example = TypeVar("Example")


class Examples(Protocol[Example]):
    """Examples that can be read again and again."""

    @property
    def paths(self) -> Sequence[Path]:
        """The input files in order."""

    @property
    def parts(self) -> Sequence[Examples[Example]]:
        """The examples of each file on their own."""

    @property
    def described(self) -> str:
        """Where they come from, in words."""

    def __iter__(self) -> Iterator[Example]: ...


class UnderstandTask(ABC, Generic[Example, AnyUnderstandRecipe]):
    """A task of encoder-only models."""

    name: str
    read_in = examples = "texts"
    recipe: type[AnyUnderstandRecipe]

    # What a task says of itself

    @abstractmethod
    def detect(self, inputs: Inputs) -> bool:
        """Return whether this data is of this task."""

    @abstractmethod
    def read(self, inputs: Inputs, overrides: Overrides) -> Examples[Example]:
        """Open the examples."""

    @abstractmethod
    def texts_of(self, example: Example) -> Sequence[str]:
        """Return the texts of an example."""

    @abstractmethod
    def labels_of(self, example: Example) -> Sequence[str]:
        """Return the labels of an example, or the tags of its words."""

    def stratum_of(self, example: Example) -> str:  # noqa: ARG002  # a default
        """Return which kind of example it is: of each kind as large a part is held out."""
        return ""

    def together_of(self, example: Example) -> str:
        """Return the text whose examples stay on one side when some are held out."""
        return "\n".join(self.texts_of(example))

    @abstractmethod
    def labels(self, survey: Survey[Example], recipe: AnyUnderstandRecipe) -> Labels | None:
        """Return what the logits of the head stand for, if they stand for labels."""

    @abstractmethod
    def columns(self, processor: EncoderProcessor) -> Columns:
        """Return the columns of an encoded example."""

    @abstractmethod
    def encode(self, examples: Sequence[Example], processor: EncoderProcessor) -> Iterator[tuple[Record, bool]]:
        """Yield what is learned from examples, and whether some of each was cut off."""

    @abstractmethod
    def learner(self, recipe: AnyUnderstandRecipe, processor: EncoderProcessor) -> EncoderLearner:
        """Return what the loop sees."""

    @abstractmethod
    def open(self, opening: Opening) -> Opaque:
        """Return what a person gets of a model folder."""

    def describe(self, surveyed: Survey[Example], recipe: AnyUnderstandRecipe) -> Iterator[str]:  # noqa: ARG002
        """Yield a description of the data."""
        yield f"{surveyed.num_examples:,} {self.examples}: {surveyed.described}"

    def concerns(self, surveyed: Survey[Example], recipe: AnyUnderstandRecipe) -> Iterator[str]:  # noqa: ARG002
        """Yield what a person should know before training on this."""
        yield from ()

    @abstractmethod
    def checked(self, example: Example) -> Labelled:
        """Return what the check looks at in an example."""

    # Setting up a run

    def check(self, request: CheckRequest, on_progress: OnProgress) -> Report:
        """Check labelled examples for faults."""
        if request.prefix is not None:
            raise ConfigError("--write-clean is for pairs, texts and conversations.", "Leave it out.")
        examples = self.read(request.inputs, request.overrides)
        test = self.located(self.read(request.test, request.overrides)) if request.test else ()
        return check_labelled(self.located(examples), test, self.examples, len(examples.parts), on_progress)

    def located(self, examples: Examples[Example]) -> Iterator[tuple[Place, Labelled]]:
        """Yield what the check looks at, with the place of each example."""
        for part in examples.parts:
            for example in part:
                yield Place(part.paths[0], self.line_of(example)), self.checked(example)

    def line_of(self, example: Example) -> int:
        """Return the line of its file where an example stands."""
        line = getattr(example, "line", 1)
        return int(line)

    def survey(self, examples: Examples[Example], seed: int, on_progress: OnProgress) -> Survey[Example]:
        """Look at all examples once."""
        del seed  # nothing is drawn
        return survey(examples, self, examples.described, on_progress)

    def propose(self, survey: Survey[Example], overrides: Overrides, device: str, core_speed: float) -> Plan:
        """Choose everything that the user did not."""
        recipe = plan.from_scratch(self.recipe, survey, overrides, device, core_speed)
        return self.planned(survey, recipe, overrides, None)

    def planned(
        self, survey: Survey[Example], recipe: AnyUnderstandRecipe, overrides: Overrides, base: Base | None
    ) -> Plan:
        """Return a recipe with its reasons and warnings."""
        reasons = (*self.describe(survey, recipe), *plan.explain(recipe, overrides, base))
        return Plan(recipe, reasons, tuple(self.concerns(survey, recipe)))

    def accepts(self, base: ModelInfo) -> bool:
        """Return whether training can start from such a model: from any encoder."""
        return base.kind == "encoder_only"

    def inherit(self, base: Base, examples: Examples[Example], overrides: Overrides) -> Overrides:
        """Return the base's shape and tokenizer; only dropout may be changed."""
        del examples
        refuse_changed_base(overrides, ("vocabulary", "subwords"))
        shape = cast("EncoderOnlyConfig", base.info.model)
        own = shape.model_dump(exclude={"vocabulary", "pad_id", "head", "labels"})
        return {"model": own, "data": {"vocabulary": max(262, shape.vocabulary)}}

    def propose_fine_tuning(self, survey: Survey[Example], base: Base, overrides: Overrides) -> Plan:
        """Choose how carefully to change a model."""
        recipe = plan.from_base(self.recipe, survey, base, overrides)
        return self.planned(survey, recipe, overrides, base)

    def fit(self, survey: Survey[Example], recipe: AnyUnderstandRecipe, base: Base | None) -> EncoderProcessor:
        """Learn subwords, or take those of the model to start from; and name the labels."""
        data = recipe.data
        if base is not None:
            processor = EncoderProcessor.of_base(base, data.max_tokens)
        else:
            processor = EncoderProcessor.learn(survey.texts, data)
        return processor.with_labels(self.labels(survey, recipe))

    def continues(self, base: Base, processor: EncoderProcessor) -> bool:
        """Return whether the base's head is kept too: it answers the same question with the same labels."""
        return base.info.task == self.name and base.info.labels == processor.labels

    def save_processor(self, folder: Path, processor: EncoderProcessor) -> list[Path]:
        """Write the tokenizer and the labels."""
        return processor.save(folder)

    def load_processor(self, folder: Path) -> EncoderProcessor:
        """Read what `save_processor` wrote."""
        return EncoderProcessor.load(folder)

    def facts(self, examples: Examples[Example], base: Base | None) -> dict[str, Json]:
        """Return nothing: the recipe and the processor know all there is."""
        del examples, base
        return {}

    # Encoding

    def prepare(self, folder: Path, given: Given, on_progress: OnProgress) -> Prepared:
        """Encode all examples into shards, and say what was cut; without validation examples, hold some out."""
        processor: EncoderProcessor = given.processor
        writers = {name: ShardWriter(folder / name, self.columns(processor)) for name in SPLITS}
        done = num_cut = 0
        for split, chunk in self.divided(given):
            encoded = list(self.encode(chunk, processor))
            writers[split].write(record for record, _ in encoded)
            num_cut += sum(is_cut for _, is_cut in encoded)
            on_progress(done := done + len(chunk))
        for name, writer in writers.items():
            writer.close()
            if writer.num_records == 0:
                raise DataError(f"No examples are left for the {name} split.", "Give more examples.")
        return Prepared(folder, tuple(self.said_of_cut(num_cut, processor)))

    def divided(self, given: Given) -> Iterator[tuple[str, list[Example]]]:
        """Yield the examples of both splits in chunks."""
        if given.valid is not None:
            for name, examples in zip(SPLITS, (given.train, given.valid), strict=True):
                yield from ((name, chunk) for chunk in chunks(examples))
            return
        data = given.recipe.data
        held_out = choose_held_out(given.survey, data.valid_share, data.valid_examples)
        for chunk in chunks(given.train):
            keys = hash_texts(normalised(self.together_of(example)) for example in chunk)
            is_held_out = contains(held_out, keys)
            for name, chosen in zip(SPLITS, (~is_held_out, is_held_out), strict=True):
                if chosen.any():
                    yield name, [chunk[place] for place in np.flatnonzero(chosen).tolist()]

    def said_of_cut(self, num_cut: int, processor: EncoderProcessor) -> Iterator[str]:
        """Say that texts were cut."""
        if num_cut:
            yield (
                f"{num_cut:,} {self.examples} are longer than {processor.rows.max_tokens:,} tokens and are cut "
                "there: --set data.max_tokens=… reads more"
            )

    def prepare_sample(self, folder: Path, given: Given, most: int) -> Corpus:
        """Encode a small part of the sample."""
        writer = ShardWriter(folder, self.columns(given.processor))
        for chunk in chunks(given.survey.sample[:most]):
            writer.write(record for record, _ in self.encode(chunk, given.processor))
        writer.close()
        return Corpus(folder)

    # The model folder

    def publish(self, folder: Path, published: Published) -> None:
        """Write the model folder."""
        from sixfold import __version__

        recipe = cast("UnderstandRecipe", published.recipe)
        processor = cast("EncoderProcessor", published.processor)
        learner = self.learner(cast("AnyUnderstandRecipe", recipe), processor)
        tokenizer = processor.tokenizer
        info = ModelInfo(
            kind="encoder_only",
            task=self.name,
            sixfold=__version__,
            model=recipe.model.config(
                tokenizer.vocabulary, tokenizer.special.pad, learner.head, learner.num_labels
            ),
            processors={"text": processor.described},
            labels=self.published_labels(processor, published),
            decode=recipe.decode.model_dump(mode="json"),
            corpus=published.corpus,
            scores=published.scores,
            training=published.training,
            weights=weight_files(len(published.members)),
        )
        text = model_card(card(info, self.examples), info, published.num_parameters)
        save_model(folder, info, published.members, tokenizer, text)

    def published_labels(self, processor: EncoderProcessor, published: Published) -> Labels | None:
        """Return the labels with what validation found out about them."""
        del published
        return processor.labels


def chunks(examples: Iterable[Example]) -> Iterator[list[Example]]:
    """Yield examples in lists."""
    chunk = list[Example]()
    for example in examples:
        chunk.append(example)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
