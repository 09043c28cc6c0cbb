"""The plan of encoder-only models: what to train and how long, from scratch or from a given encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from sixfold.machine import num_cores
from sixfold.models.encoder_only import EncoderOnlyConfig
from sixfold.models.folder import Json
from sixfold.settings import Overrides
from sixfold.tasks.understand.recipe import AnyUnderstandRecipe, UnderstandRecipe
from sixfold.tasks.understand.survey import Example, Survey
from sixfold.training.base import Base
from sixfold.training.recipe import UNLIMITED, has_own_shape, make_recipe, merge, minutes_of, pick

CHARACTERS_A_TOKEN = 4.0  # about
VALIDATIONS = 12
MOST_TOKENS = 256  # of a text, unless the user asks for more


@dataclass(frozen=True)
class Size:
    """A model to choose, and how it is trained."""

    model: Mapping[str, Json]
    batch_tokens: int
    learning_rate: float
    speed: int  # tokens a second on one core, about, at the reference speed


TINY = Size({"preset": "encoder-tiny", "norm": "pre"}, 1024, 1e-3, speed=14_000)
SMALL = Size({"preset": "encoder-small", "norm": "pre"}, 2048, 5e-4, speed=4000)
MANY_CHARACTERS = 5_000_000  # from which a small model learns more than a tiny one, with enough time


def from_scratch(
    recipe: type[AnyUnderstandRecipe],
    surveyed: Survey[Example],
    overrides: Overrides,
    device: str,
    core_speed: float,
) -> AnyUnderstandRecipe:
    """Choose everything the user did not, for a core of `core_speed` times the reference speed."""
    minutes = minutes_of(overrides)
    epoch_tokens = surveyed.num_characters / CHARACTERS_A_TOKEN + 2 * surveyed.num_examples
    budget = minutes * 60 * num_cores() * core_speed if device == "cpu" else 0.0
    size = SMALL if is_worth_a_small_model(surveyed, budget, epoch_tokens) else TINY
    epochs = budget * size.speed / epoch_tokens if budget else usual_epochs(surveyed.num_examples)
    steps = max(100, round(epochs * epoch_tokens / size.batch_tokens))
    max_tokens = longest(surveyed)
    model: dict[str, Json] = {**({} if has_own_shape(overrides) else size.model), "dropout": dropout_for(epochs)}
    automatic: Overrides = {
        "data": {"vocabulary": vocabulary_for(surveyed.num_characters), "max_tokens": max_tokens},
        "model": {**model, "max_positions": max(512, max_tokens)},
        "train": training(size.batch_tokens, size.learning_rate, steps, minutes),
    }
    return make_recipe(recipe, merge(recipe, automatic, overrides))


def training(batch_tokens: int, rate: float, steps: int, minutes: float) -> dict[str, Json]:
    """Return the training settings for a number of steps or minutes."""
    return {
        "batch_tokens": batch_tokens,
        "beta2": 0.98,
        "epsilon": 1e-8,
        "weight_decay": 0.05,
        "schedule": "linear_decay",
        "learning_rate": rate,
        "warmup_steps": max(10, min(200, steps // 10)),
        "max_grad_norm": 1.0,
        "average": 1,
        "steps": UNLIMITED if minutes else steps,
        "checkpoint_every": max(20, steps // VALIDATIONS),
        "patience": 0 if minutes else VALIDATIONS // 2,
    }


def is_worth_a_small_model(surveyed: Survey[Example], budget: float, epoch_tokens: float) -> bool:
    """Return whether there is text enough, and time to see it a few times."""
    is_affordable = not budget or budget * SMALL.speed / epoch_tokens > 3
    return surveyed.num_characters > MANY_CHARACTERS and is_affordable


def usual_epochs(examples: int) -> float:
    """Return the epochs of a run without a time budget: the fewer the examples, the more."""
    return max(3.0, min(40.0, 20 * (5000 / examples) ** 0.5))


def dropout_for(epochs: float) -> float:
    """Return how much to drop: labelled texts are few, and seen many times."""
    return pick(epochs, ((2, 0.0), (6, 0.1), (20, 0.2)), 0.3)


def vocabulary_for(characters: int) -> int:
    """Return how many subwords to learn: the more text, the more of them occur often enough."""
    return pick(characters, ((50_000, 800), (200_000, 2000), (1_000_000, 4000), (10_000_000, 8000)), 16_000)


def longest(surveyed: Survey[Example]) -> int:
    """Return how many tokens of a text to read: enough for nearly all, within reason."""
    lengths = sorted(len(text) for text in surveyed.texts)
    enough = lengths[int(0.99 * (len(lengths) - 1))] / 2.5 + 3  # characters a token, in the worst of usual texts
    return int(max(16, min(MOST_TOKENS, 8 * -(-enough // 8))))


# From a given encoder


def from_base(
    recipe: type[AnyUnderstandRecipe], surveyed: Survey[Example], base: Base, overrides: Overrides
) -> AnyUnderstandRecipe:
    """Choose how to go on from an encoder that has learned from much text, or from the same kind of labels."""
    shape = cast("EncoderOnlyConfig", base.info.model)
    minutes, batch_tokens = minutes_of(overrides), 2048
    epoch_tokens = surveyed.num_characters / CHARACTERS_A_TOKEN + 2 * surveyed.num_examples
    epochs = max(2.0, min(10.0, 5 * (5000 / surveyed.num_examples) ** 0.5))
    steps = max(60, round(epochs * epoch_tokens / batch_tokens))
    room = shape.max_positions - shape.first_position if shape.positions == "learned" else MOST_TOKENS
    automatic: Overrides = {
        "data": {"max_tokens": min(longest(surveyed), room)},
        "model": {"dropout": max(0.1, shape.dropout)},
        "train": {**training(batch_tokens, rate_for(shape.d_model), steps, minutes), "layer_decay": 0.9},
    }
    return make_recipe(recipe, merge(recipe, automatic, overrides))


def rate_for(d_model: int) -> float:
    """Return the learning rate of fine-tuning: the wider the model, the smaller."""
    return pick(d_model, ((256, 5e-4), (512, 2e-4)), 5e-5)


def explain(recipe: UnderstandRecipe, overrides: Overrides, base: Base | None) -> Iterator[str]:
    """Yield what will be trained, with the reason for each choice that the user left to the plan."""
    model, train, data = recipe.model, recipe.train, recipe.data
    if base is None:
        why = "" if "vocabulary" in overrides.get("data", {}) else ", chosen for this much text"
        yield f"{data.vocabulary:,} subwords{why}"
        why = "" if has_own_shape(overrides) else ", chosen for this much text and time"
        yield f"{model.layers} layers of width {model.d_model}, dropout {model.dropout:g}{why}"
    else:
        yield (
            f"starts from {base.name}: {model.layers} layers of width {model.d_model} and its tokenizer are kept; "
            f"dropout {model.dropout:g}"
        )
    lower = f", {train.layer_decay:g} times as much for each layer below" if train.layer_decay < 1 else ""
    yield f"{train.summary}{lower}; the best model is kept"
    yield f"reads at most {data.max_tokens:,} tokens of a text (data.max_tokens)"
