"""What the plans of all fine-tunings share: a careful schedule, and the words for it."""

from __future__ import annotations

from collections.abc import Iterator

from sixfold.models.folder import Json
from sixfold.training.recipe import UNLIMITED, TrainConfig

VALIDATIONS = 10  # spread over the run, so that the one before forgetting begins is among them


def careful_schedule(steps: int, minutes: float) -> dict[str, Json]:
    """Return the part of a recipe that ends a run where nothing is gained any more."""
    return {
        "schedule": "linear_decay",
        "max_grad_norm": 1.0,
        "steps": UNLIMITED if minutes else steps,
        "checkpoint_every": max(1, steps // VALIDATIONS),
        "patience": 0 if minutes else VALIDATIONS // 2,
    }


def explain_care(train: TrainConfig, score: str) -> Iterator[str]:
    """Yield how the base is kept from being forgotten; the score is what its validation text is measured in."""
    yield f"learning rate {train.learning_rate:g}: a higher one makes a model forget what it was trained on"
    yield train.summary
    yield "scores the base first, and keeps its weights unless a model scores at least as well"
    if train.max_forgetting:
        yield (
            f"keeps no model that loses over {train.max_forgetting:g} {score} on the base's own validation text, "
            "if its training folder is there"
        )
