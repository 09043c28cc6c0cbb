"""The task generate: from plain text or conversations to a decoder-only model that continues text (GPT)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from sixfold.callbacks import OnProgress
from sixfold.data.checks.report import CheckRequest, Report
from sixfold.data.content import kind_of, kinds_of
from sixfold.data.conversations import Conversations
from sixfold.data.shards import Corpus
from sixfold.data.texts import open_texts, text_files
from sixfold.errors import DataError
from sixfold.models.folder import Json, ModelInfo, save_model, weight_files
from sixfold.settings import Overrides
from sixfold.tasks.generate.card import card
from sixfold.tasks.generate.check import check
from sixfold.tasks.generate.fine_tune import choose_fine_tuning, inherit
from sixfold.tasks.generate.learner import GenerateLearner
from sixfold.tasks.generate.plan import choose
from sixfold.tasks.generate.prepare import prepare, prepare_sample, refuse_mixed
from sixfold.tasks.generate.processor import TextProcessor
from sixfold.tasks.generate.recipe import GenerateRecipe
from sixfold.tasks.generate.survey import Examples, Survey, survey
from sixfold.training.base import Base
from sixfold.training.card import model_card
from sixfold.training.recipe import Plan
from sixfold.training.task import Given, Inputs, Opening, Prepared, Published

if TYPE_CHECKING:
    from sixfold.decode.generate import Generator


class Generate:
    """The task of continuing text."""

    name = "generate"
    read_in, examples = "characters", "rows"
    recipe = GenerateRecipe

    def detect(self, inputs: Inputs) -> bool:
        """One file or folder of text or conversations, two of JSON Lines, or more than two."""
        kinds = kinds_of(inputs)
        if kinds & {"labels", "tags", "questions"}:
            return False
        if len(inputs) == 2:
            return kinds <= {"texts", "conversations"}
        return len(inputs) > 2 or kinds != {"pairs"}

    def read(self, inputs: Inputs, overrides: Overrides) -> Examples:
        """Open texts or conversations."""
        files, left_out = text_files(inputs)
        are_conversations = {kind_of(source) == "conversations" for source in files}
        if are_conversations == {True, False}:
            raise DataError(
                "Some of the files contain conversations and others plain text.",
                "Train on one kind first, then fine-tune on the other with --init.",
            )
        if True in are_conversations:
            return Conversations(tuple(files), tuple(left_out))
        return open_texts(inputs, str(overrides.get("data", {}).get("documents", "auto")))

    def check(self, request: CheckRequest, on_progress: OnProgress) -> Report:
        """Check text or conversations for faults, and write what is clean if there is a place for it."""
        examples = self.read(request.inputs, request.overrides)
        test = self.read(request.test, request.overrides) if request.test else None
        return check(examples, test, request.prefix, on_progress)

    def survey(self, examples: Examples, seed: int, on_progress: OnProgress) -> Survey:  # noqa: ARG002  # nothing is random
        """Count the text and keep a sample."""
        return survey(examples, on_progress)

    def propose(self, survey: Survey, overrides: Overrides, device: str, core_speed: float) -> Plan:
        """Choose everything that the user left open."""
        return choose(survey, overrides, device, core_speed)

    def accepts(self, base: ModelInfo) -> bool:
        """Return whether it is a model of this task."""
        return base.task == self.name

    def inherit(self, base: Base, examples: Examples, overrides: Overrides) -> Overrides:
        """Return the base's shape, tokenizer and decoding defaults; only dropout and decoding may be changed."""
        return inherit(base, isinstance(examples, Conversations), overrides)

    def propose_fine_tuning(self, survey: Survey, base: Base, overrides: Overrides) -> Plan:
        """Choose the recipe of fine-tuning."""
        return choose_fine_tuning(survey, base, overrides)

    def fit(self, survey: Survey, recipe: GenerateRecipe, base: Base | None) -> TextProcessor:
        """Learn subwords, or take the tokenizer and the chat template of the base."""
        if base is not None:
            return TextProcessor.of_base(base.folder, base.info, survey.has_conversations)
        data = recipe.data
        return TextProcessor.learn(survey.texts, data.vocabulary, data.subwords, survey.has_conversations)

    def continues(self, base: Base, processor: TextProcessor) -> bool:
        """All of the base is kept."""
        del base, processor
        return True

    def save_processor(self, folder: Path, processor: TextProcessor) -> list[Path]:
        """Write the tokenizer and its description."""
        return processor.save(folder)

    def load_processor(self, folder: Path) -> TextProcessor:
        """Read a processor written by `save_processor`."""
        return TextProcessor.load(folder)

    def prepare(self, folder: Path, given: Given, on_progress: OnProgress) -> Prepared:
        """Encode all text into rows."""
        refuse_mixed(given.train, given.valid)
        return prepare(folder, given, on_progress)

    def prepare_sample(self, folder: Path, given: Given, most: int) -> Corpus:
        """Encode a small part of the sample."""
        return prepare_sample(folder, given, most)

    def facts(self, examples: Examples, base: Base | None) -> dict[str, Json]:  # noqa: ARG002
        """Return nothing: the recipe and the processor hold everything."""
        return {}

    def learner(self, recipe: GenerateRecipe, processor: TextProcessor) -> GenerateLearner:
        """Return the learner for the loop."""
        return GenerateLearner(recipe, processor)

    def publish(self, folder: Path, published: Published) -> None:
        """Write the model folder."""
        from sixfold import __version__

        recipe, processor = cast("GenerateRecipe", published.recipe), cast("TextProcessor", published.processor)
        info = ModelInfo(
            kind="decoder_only",
            task=self.name,
            sixfold=__version__,
            model=recipe.model.config(processor.tokenizer.vocabulary),
            processors={"text": processor.described},
            decode=recipe.decode.model_dump(mode="json"),
            corpus=published.corpus,
            scores=published.scores,
            training=published.training,
            weights=weight_files(len(published.members)),
        )
        text = model_card(card(info), info, published.num_parameters)
        save_model(folder, info, published.members, processor.tokenizer, text)

    def open(self, opening: Opening) -> Generator:
        """Open a model folder as a generator."""
        from sixfold.decode.generate import load

        return load(opening.folder, opening.device, opening.precision)
