"""The task translate: from pairs of text to an encoder-decoder that translates (the paper)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

from sixfold.callbacks import OnProgress
from sixfold.data.checks.clean import pair_paths, refuse_overwriting, writing_pairs
from sixfold.data.checks.pairs import check_pairs
from sixfold.data.checks.report import CheckRequest, Report
from sixfold.data.content import kinds_of
from sixfold.data.languages import asked_languages
from sixfold.data.readers import Pairs, open_pairs
from sixfold.data.shards import Corpus
from sixfold.decode.translate import Translator, load
from sixfold.files import write_atomically
from sixfold.models.folder import (
    Json,
    Languages,
    ModelInfo,
    Processor,
    load_tokenizer,
    save_model,
    weight_files,
)
from sixfold.settings import Overrides
from sixfold.tasks.translate.card import card
from sixfold.tasks.translate.fine_tune import choose_fine_tuning, inherit
from sixfold.tasks.translate.learner import TranslateLearner
from sixfold.tasks.translate.plan import choose
from sixfold.tasks.translate.prepare import Survey, learn_tokenizer, prepare, prepare_sample, survey
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.text import Tokenizer
from sixfold.training.base import Base
from sixfold.training.card import model_card
from sixfold.training.recipe import Plan
from sixfold.training.task import Given, Inputs, Opening, Prepared, Published

TOKENIZER = "tokenizer.model"
COMPRESSED = ("gz", "xz", "zst", "txt")


class Translate:
    """The task of translation."""

    name = "translate"
    read_in = examples = "pairs"
    recipe = TranslateRecipe

    def detect(self, inputs: Inputs) -> bool:
        """Two files or folders of text are a pair; one may hold both sides."""
        if len(inputs) == 2:
            return not kinds_of(inputs) <= {"texts", "conversations"}
        return len(inputs) == 1 and bool(kinds_of(inputs) & {"pairs", "pairs or texts"})

    def read(self, inputs: Inputs, overrides: Overrides) -> Pairs:
        """Open parallel text in the requested languages."""
        return open_pairs(*inputs, languages=asked_languages(overrides.get("data", {}).get("languages")))

    def check(self, request: CheckRequest, on_progress: OnProgress) -> Report:
        """Check parallel text for faults, and write the clean pairs if there is a place for them."""
        pairs = self.read(request.inputs, request.overrides)
        test = self.read(request.test, request.overrides) if request.test else None
        if request.prefix is None:
            return check_pairs(pairs, test, on_progress)
        source, *target = map(Path, request.inputs)
        paths = pair_paths(request.prefix, source, *target)
        refuse_overwriting(paths, pairs.paths)
        with writing_pairs(paths) as keep:
            return replace(check_pairs(pairs, test, on_progress, keep=keep), written=paths)

    def survey(self, examples: Pairs, seed: int, on_progress: OnProgress) -> Survey:
        """Count the pairs and keep a sample."""
        return survey(examples, seed, on_progress)

    def propose(self, survey: Survey, overrides: Overrides, device: str, core_speed: float) -> Plan:
        """Choose everything that the user left open."""
        return choose(survey, overrides, device, core_speed)

    def accepts(self, base: ModelInfo) -> bool:
        """Return whether it is a model of this task."""
        return base.task == self.name

    def inherit(self, base: Base, examples: Pairs, overrides: Overrides) -> Overrides:
        """Return the base's shape, tokenizer and decoding defaults; only dropout and the search may be changed."""
        return inherit(base, languages_of(examples), overrides)

    def propose_fine_tuning(self, survey: Survey, base: Base, overrides: Overrides) -> Plan:
        """Choose the recipe of fine-tuning."""
        return choose_fine_tuning(survey, base, overrides)

    def fit(self, survey: Survey, recipe: TranslateRecipe, base: Base | None) -> Tokenizer:
        """Learn one vocabulary for both languages, or take the base's."""
        if base is not None:
            return load_tokenizer(base.folder, base.info)
        return learn_tokenizer(survey.sample, recipe.data)

    def continues(self, base: Base, processor: Tokenizer) -> bool:
        """All of the base is kept."""
        del base, processor
        return True

    def save_processor(self, folder: Path, processor: Tokenizer) -> list[Path]:
        """Write the tokenizer."""
        write_atomically(folder / TOKENIZER, processor.model)
        return [folder / TOKENIZER]

    def load_processor(self, folder: Path) -> Tokenizer:
        """Read the tokenizer."""
        return Tokenizer.load(folder / TOKENIZER)

    def prepare(self, folder: Path, given: Given, on_progress: OnProgress) -> Prepared:
        """Encode all pairs into shards."""
        return prepare(folder, given, on_progress)

    def prepare_sample(self, folder: Path, given: Given, most: int) -> Corpus:
        """Encode a small part of the sample."""
        return prepare_sample(folder, given, most)

    def facts(self, examples: Pairs, base: Base | None) -> dict[str, Json]:
        """Return the languages, from the names of the files or from the base."""
        named = languages_of(examples)
        if base is not None and not any(named):
            named = (base.info.languages.source, base.info.languages.target)
        return {"languages": [*named]}

    def learner(self, recipe: TranslateRecipe, processor: Tokenizer) -> TranslateLearner:
        """Return the learner for the loop."""
        return TranslateLearner(recipe, processor)

    def publish(self, folder: Path, published: Published) -> None:
        """Write the model folder."""
        from sixfold import __version__

        recipe, tokenizer = cast("TranslateRecipe", published.recipe), cast("Tokenizer", published.processor)
        source, target = cast("list[str]", published.facts["languages"])
        special = tokenizer.special
        info = ModelInfo(
            task="translate",
            sixfold=__version__,
            model=recipe.model.config(tokenizer.vocabulary, special.pad),
            processors={
                "source": Processor(special=special),
                "target": Processor(special=special, decoder_start=special.bos),
            },
            languages=Languages(source=source, target=target),
            decode=recipe.decode.model_dump(mode="json"),
            corpus=published.corpus,
            scores=published.scores,
            training=published.training,
            weights=weight_files(len(published.members)),
        )
        text = model_card(card(info), info, published.num_parameters)
        save_model(folder, info, published.members, tokenizer, text)

    def open(self, opening: Opening) -> Translator:
        """Open a model folder as a translator."""
        return load(opening.folder, opening.device, opening.partners, opening.precision, opening.num_workers)


def languages_of(examples: Pairs) -> tuple[str, str]:
    """Return the languages that the user or the file states, or those of file names such as train.en and train.de.

    They are empty if nothing states them.
    """
    if examples.sides and examples.sides != ("source", "target"):
        return examples.sides
    codes = [[part for part in path.name.split(".")[1:] if part not in COMPRESSED] for path in examples.paths]
    if len(codes) == 2 and codes[0] and codes[1]:
        return codes[0][-1], codes[1][-1]
    return "", ""
