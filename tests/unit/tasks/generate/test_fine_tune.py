"""The plan of fine-tuning on text: the base keeps its shape and tokenizer, and most of what it knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.data.texts import Piece
from sixfold.errors import ConfigError
from sixfold.settings import Overrides
from sixfold.tasks.generate import Generate
from sixfold.tasks.generate.fine_tune import choose_fine_tuning, inherit
from sixfold.tasks.generate.survey import Survey
from sixfold.training.base import Base, read_base
from sixfold.training.recipe import Plan, merge


@pytest.fixture(scope="module")
def base(chat_model: Path) -> Base:
    """Return a model to fine-tune."""
    return read_base(chat_model, Generate())


def plan_for(base: Base, overrides: Overrides) -> Plan:
    """Return the plan of fine-tuning on 400,000 bytes of text."""
    sample = [Piece("text " * 400, 1, is_first=True, is_last=True)]
    surveyed = Survey(200, 1, 400_000, 400_000, 1, sample, "files", (), has_conversations=False)
    inherited = inherit(base, has_conversations=False, overrides=overrides)
    return choose_fine_tuning(surveyed, base, merge(Generate.recipe, inherited, overrides))


def test_the_base_keeps_its_shape(base: Base) -> None:
    model = plan_for(base, {}).recipe.model.model_dump()
    assert model == base.info.model.model_dump(exclude={"vocabulary"})


def test_what_may_be_forgotten_is_bounded_and_said(base: Base) -> None:
    plan = plan_for(base, {})
    bound = f"{plan.recipe.train.max_forgetting:g} bits per byte on the base's own validation text"
    assert 0 < plan.recipe.train.max_forgetting < 1
    assert any(bound in reason for reason in plan.reasons)


def test_the_bound_can_be_lifted(base: Base) -> None:
    plan = plan_for(base, {"train": {"max_forgetting": 0}})
    assert not any("keeps no model that loses" in reason for reason in plan.reasons)


def test_the_weights_of_the_base_are_not_initialised_again(base: Base) -> None:
    with pytest.raises(ConfigError, match="starts from the model's own weights"):
        plan_for(base, {"train": {"initialise": "bigrams"}})
