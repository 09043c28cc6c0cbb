"""The plan for text: there is one for any amount of text and time, the user's overrides win, and it says why."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sixfold.data.texts import Piece
from sixfold.models.decoder_only import PRESETS
from sixfold.settings import Overrides
from sixfold.tasks.generate.plan import choose
from sixfold.tasks.generate.recipe import GenerateRecipe, ModelConfig
from sixfold.tasks.generate.survey import Survey
from sixfold.training.recipe import Plan

BYTES = (50_000, 1_000_000, 10_000_000, 90_000_000, 2_000_000_000)
MINUTES = (0.0, 1.0, 3.0, 10.0, 60.0)
every_size = pytest.mark.parametrize("num_bytes", BYTES)
every_time = pytest.mark.parametrize("minutes", MINUTES)


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan for one core on any machine."""
    monkeypatch.setattr("sixfold.tasks.generate.plan.num_cores", lambda: 1)


def plan_for(num_bytes: int, minutes: float = 0.0, has_conversations: bool = False, **model: object) -> Plan:
    """Return the plan for so much text and time, and for what the user says of the model."""
    sample = [Piece("text " * 400, 1, is_first=True, is_last=True)]
    surveyed = Survey(num_bytes // 2000, 100, num_bytes, num_bytes, 1, sample, "files", (), has_conversations)
    overrides: Overrides = {"train": {"minutes": minutes}, **({"model": model} if model else {})}  # type: ignore[dict-item]
    return choose(surveyed, overrides)


@every_size
@every_time
def test_there_is_a_plan_for_any_amount_of_text_and_time(num_bytes: int, minutes: float) -> None:
    plan = plan_for(num_bytes, minutes)
    recipe = plan.recipe
    assert isinstance(recipe, GenerateRecipe)
    assert recipe.data.vocabulary <= max(600, num_bytes / 100)  # each subword occurs often enough
    assert recipe.train.initialise == "bigrams"
    assert recipe.train.warmup_steps < recipe.train.steps / 5
    assert f"learning rate falls linearly from {recipe.train.learning_rate:g}" in "\n".join(plan.reasons)


@every_size
def test_more_time_never_gives_a_narrower_model_or_a_larger_learning_rate(num_bytes: int) -> None:
    for less, more in pairwise(plan_for(num_bytes, minutes).recipe for minutes in (1, 3, 10, 60, 600)):
        assert less.model.d_model <= more.model.d_model
        assert less.train.learning_rate >= more.train.learning_rate


@every_time
def test_the_less_text_there_is_the_more_is_dropped(minutes: float) -> None:
    dropped = [plan_for(num_bytes, minutes).recipe.model.dropout for num_bytes in BYTES]
    assert dropped == sorted(dropped, reverse=True)


def test_a_model_of_ones_own_keeps_nothing_of_the_plans() -> None:
    recipe = plan_for(10_000_000, preset="gpt2", max_positions=256).recipe
    published = PRESETS["gpt2"].model_dump() | {"max_positions": 256, "dropout": recipe.model.dropout}
    assert recipe.model == ModelConfig.model_validate(published)
    assert recipe.train.initialise == "random"  # the embedding is the head


def test_an_untied_model_of_ones_own_begins_as_bigrams_too() -> None:
    assert plan_for(10_000_000, preset="gpt2", tied=False).recipe.train.initialise == "bigrams"


def test_conversations_are_kept_apart() -> None:
    assert not plan_for(1_000_000, has_conversations=True).recipe.data.crosses_documents
