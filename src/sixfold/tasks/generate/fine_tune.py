"""The plan for fine-tuning a model that continues text: a small learning rate and few steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from sixfold.decode.config import generate_config
from sixfold.models.decoder_only import DecoderOnlyConfig
from sixfold.models.folder import Json
from sixfold.settings import Overrides
from sixfold.tasks.generate.plan import BYTES_A_TOKEN, OPTIMIZER, concerns, describe_held_out, describe_text
from sixfold.tasks.generate.recipe import GenerateRecipe
from sixfold.tasks.generate.survey import Survey
from sixfold.training.base import Base, refuse_changed_base
from sixfold.training.fine_tuning import careful_schedule, explain_care
from sixfold.training.recipe import Plan, make_recipe, merge, minutes_of

RATE, RATE_OF_WIDE, WIDE = 3e-4, 5e-5, 512  # at most a tenth of the plan's rate for new models
MOST_EPOCHS, FEWEST_EPOCHS, USUAL_TOKENS = 5.0, 1.0, 200_000
FEWEST_STEPS = 30
LONGEST_ROW = 512  # tokens
MAX_FORGETTING = 0.3  # bits per byte of the base's own validation text
BATCH_TOKENS, BATCH_TOKENS_OF_WIDE = 4096, 2048
OWN_DATA_KEYS = ("vocabulary", "subwords")


def inherit(base: Base, has_conversations: bool, overrides: Overrides) -> Overrides:
    """Return what the base decides: shape, tokenizer, decoding defaults and the packing of rows."""
    refuse_changed_base(overrides, OWN_DATA_KEYS)
    shape = cast("DecoderOnlyConfig", base.info.model)
    own = shape.model_dump(exclude={"vocabulary"})
    data: dict[str, Json] = {
        "vocabulary": max(262, shape.vocabulary),
        "context": min(shape.max_positions, row_length(base)),
        "crosses_documents": not has_conversations and crosses_documents(base),
    }
    return {"model": own, "data": data, "decode": generate_config(base.info).model_dump()}


def data_part(base: Base) -> dict[str, Json]:
    """Return the `data` part of the base's recipe, if it is recorded."""
    recipe = base.info.training.get("recipe")
    data = recipe.get("data") if isinstance(recipe, dict) else None
    return data if isinstance(data, dict) else {}


def row_length(base: Base) -> int:
    """Return the length of rows: that of the base's own training."""
    context = data_part(base).get("context")
    return context if isinstance(context, int) else LONGEST_ROW


def crosses_documents(base: Base) -> bool:
    """Return whether attention crosses documents: as in the base's own training."""
    return data_part(base).get("crosses_documents") is not False


def choose_fine_tuning(surveyed: Survey, base: Base, overrides: Overrides) -> Plan:
    """Choose everything that neither the user nor the base decides."""
    recipe = make_recipe(GenerateRecipe, merge(GenerateRecipe, choices(surveyed, overrides), overrides))
    return Plan(
        recipe,
        tuple(explain(surveyed, base, recipe)),
        tuple(concerns(surveyed)),
        describe_held_out(surveyed, recipe),
    )


def choices(surveyed: Survey, overrides: Overrides) -> Overrides:
    """Return the automatic recipe for fine-tuning a model of this shape."""
    is_wide, minutes = int(str(overrides["model"]["d_model"])) >= WIDE, minutes_of(overrides)
    batch_tokens = BATCH_TOKENS_OF_WIDE if is_wide else BATCH_TOKENS
    tokens = surveyed.num_bytes / BYTES_A_TOKEN
    epochs = max(FEWEST_EPOCHS, min(MOST_EPOCHS, MOST_EPOCHS * (USUAL_TOKENS / tokens) ** 0.5))
    steps = max(FEWEST_STEPS, round(epochs * tokens / batch_tokens))
    train: dict[str, Json] = {
        **OPTIMIZER,
        **careful_schedule(steps, minutes),
        "batch_tokens": batch_tokens,
        "learning_rate": RATE_OF_WIDE if is_wide else RATE,
        "warmup_steps": 10 if minutes else max(5, min(100, steps // 10)),
        "average": 1,
        "max_forgetting": MAX_FORGETTING,
    }
    return {"train": train}


def explain(surveyed: Survey, base: Base, recipe: GenerateRecipe) -> Iterator[str]:
    """Yield the choices, each with its reason."""
    model, train = recipe.model, recipe.train
    yield from describe_text(surveyed, recipe)
    yield (
        f"fine-tunes {base.name}, whose {model.layers} layers of width {model.d_model} and "
        f"{recipe.data.vocabulary:,} tokens are kept, because its weights depend on them"
    )
    yield from explain_care(train, "bits per byte")
