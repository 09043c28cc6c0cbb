"""The plan of a fine-tuning: small steps, and the shape and the search of the base; contradictions are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.data.readers import Pair
from sixfold.data.reservoir import Reservoir
from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import PRESETS, EncoderDecoderConfig
from sixfold.models.folder import Languages, ModelInfo, weight_files
from sixfold.settings import Overrides
from sixfold.tasks.translate.fine_tune import choose_fine_tuning, inherit
from sixfold.tasks.translate.plan import BASE, SMALL, TINY
from sixfold.tasks.translate.prepare import Survey
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.training.base import Base
from sixfold.training.recipe import Plan, merge

SIZES = {"tiny": TINY, "small": SMALL, "base": BASE}


def base_of(preset: str = "tiny", dropout: float = 0.3, members: int = 1) -> Base:
    """Return a model from English to German as its folder describes it."""
    shape = PRESETS[preset].model_dump() | {"dropout": dropout}
    info = ModelInfo(
        model=EncoderDecoderConfig(**shape, vocabulary=500),
        languages=Languages(source="en", target="de"),
        decode={"beam": 7, "length_penalty": 0.9, "extra_tokens": 20},
        weights=weight_files(members),
    )
    return Base(Path("base"), info, ("0" * 64,))


def planned(base: Base, num_pairs: int = 500, overrides: Overrides | None = None) -> Plan:
    """Return the plan for so many pairs."""
    sample = Reservoir(most=1, seed=1)
    sample.offer(Pair("one", "eins", 1))
    surveyed = Survey(num_pairs, 40.0, 45.0, sample, smallest_hash=1)
    asked = overrides or {}
    return choose_fine_tuning(surveyed, base, merge(TranslateRecipe, inherit(base, ("en", "de"), asked), asked))


def recipe_of(plan: Plan) -> TranslateRecipe:
    """Return the recipe of a plan for translation."""
    assert isinstance(plan.recipe, TranslateRecipe)
    return plan.recipe


@pytest.mark.parametrize("preset", SIZES)
def test_the_rate_is_a_tenth_of_a_new_models_or_less(preset: str) -> None:
    assert 0 < recipe_of(planned(base_of(preset))).train.learning_rate <= SIZES[preset].learning_rate / 10


@pytest.mark.parametrize("num_pairs", [10, 500, 20_000, 1_000_000])
def test_there_is_a_plan_for_any_number_of_pairs_with_validations_on_the_way(num_pairs: int) -> None:
    train = recipe_of(planned(base_of(), num_pairs)).train
    assert train.initialise == "random"
    assert train.warmup_steps < train.steps
    assert 5 <= train.steps / train.checkpoint_every <= 11


def test_the_bases_shape_and_search_are_kept_unless_another_search_is_asked_for() -> None:
    base = base_of(members=2)
    recipe = recipe_of(planned(base, overrides={"decode": {"beam": 3}}))
    assert (recipe.decode.beam, recipe.decode.length_penalty, recipe.decode.extra_tokens) == (3, 0.9, 20)
    assert recipe.model.config(500) == base.info.model
    assert (recipe.model.ensemble, recipe.data.vocabulary) == (2, 500)


def test_a_base_without_dropout_gets_some_and_one_that_is_asked_for_wins() -> None:
    base = base_of(dropout=0.0)
    assert recipe_of(planned(base)).model.dropout > 0
    assert recipe_of(planned(base, overrides={"model": {"dropout": 0.0}})).model.dropout == 0


def test_every_choice_is_said_with_its_reason() -> None:
    said = "\n".join(planned(base_of()).reasons)
    for words in (
        "fine-tunes base",
        "learning rate",
        "dropout",
        "co-occurrence",
        "as the base does",
        "own validation",
    ):
        assert words in said


@pytest.mark.parametrize(
    "overrides",
    [
        {"model": {"d_model": 32}},
        {"data": {"vocabulary": 400}},
        {"data": {"subwords": "unigram"}},
        {"train": {"initialise": "cooccurrence"}},
    ],
)
def test_what_the_base_decides_cannot_be_set(overrides: Overrides) -> None:
    (part, keys), *_ = overrides.items()
    with pytest.raises(ConfigError, match=f"{part}.{next(iter(keys))}"):
        inherit(base_of(), ("en", "de"), overrides)


@pytest.mark.parametrize("languages", [("", ""), ("en", "de"), ("2024", "2025")])
def test_names_that_tell_no_other_languages_are_taken(languages: tuple[str, str]) -> None:
    assert inherit(base_of(), languages, {})
