"""The plan for a new model: chosen from the amount of text and the machine, with the reason for each choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sixfold.machine import num_cores
from sixfold.models.folder import Json
from sixfold.settings import Overrides
from sixfold.tasks.generate.held_out import choose_held_out
from sixfold.tasks.generate.recipe import GenerateRecipe
from sixfold.tasks.generate.survey import Survey
from sixfold.training.recipe import UNLIMITED, Plan, has_own_shape, make_recipe, merge, minutes_of, pick

BYTES_A_TOKEN = 3.7  # approximately, for the vocabularies chosen here
CONTEXT = 256
OPTIMIZER: dict[str, Json] = {"beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1}  # AdamW's, as GPT-3's
MOST_EPOCHS = 20.0  # a text that is seen more often is learned by heart
FEWEST_STEPS = 100
VALIDATIONS = 20  # of a run without a time budget


@dataclass(frozen=True)
class Size:
    """A model size that the plan may choose, and how to train it."""

    model: dict[str, Json]
    learning_rate: float
    speed: int  # approximate tokens per second on one core of the reference speed
    enough_tokens: float  # training tokens beyond which the next larger model is better


TINY = Size({"preset": "llama-tiny"}, 4e-3, speed=6500, enough_tokens=16e6)
NARROW = Size(
    {"preset": "llama-tiny", "d_model": 256, "d_ff": 704, "heads": 8, "key_value_heads": 4},
    2.5e-3, speed=2800, enough_tokens=60e6,
)  # fmt: skip
SMALL = Size({"preset": "llama-small"}, 1.5e-3, speed=1200, enough_tokens=1e12)
SIZES = (TINY, NARROW, SMALL)


def choose(surveyed: Survey, overrides: Overrides, device: str = "cpu", core_speed: float = 1.0) -> Plan:
    """Choose everything that the user left open, for a core of `core_speed` times the reference speed."""
    automatic = choices(surveyed, overrides, minutes_of(overrides), device, core_speed)
    recipe = make_recipe(GenerateRecipe, merge(GenerateRecipe, automatic, overrides))
    return Plan(
        recipe,
        tuple(explain(surveyed, recipe, overrides)),
        tuple(concerns(surveyed)),
        describe_held_out(surveyed, recipe),
    )


def choices(surveyed: Survey, overrides: Overrides, minutes: float, device: str, core_speed: float) -> Overrides:
    """Return the automatic recipe."""
    epoch_tokens = surveyed.num_bytes / BYTES_A_TOKEN
    budget = minutes * 60 * num_cores() * core_speed if device == "cpu" else 0.0
    size = size_for(epoch_tokens, budget)
    tokens = tokens_for(size, epoch_tokens, budget)
    batch_tokens = pick(tokens, ((1e6, 1024), (8e6, 2048), (40e6, 4096)), 8192)
    steps = max(FEWEST_STEPS, round(tokens / batch_tokens))
    context = context_for(overrides)
    train: dict[str, Json] = {
        **OPTIMIZER,
        "batch_tokens": batch_tokens,
        "schedule": "linear_decay",
        "learning_rate": size.learning_rate,
        "warmup_steps": max(20, min(200, steps // 20)),
        "initialise": "random" if is_tied(overrides) else "bigrams",
        "max_grad_norm": 1.0,
        "average": 1,
        "steps": UNLIMITED if minutes and tokens == budget * size.speed else steps,
        "checkpoint_every": max(50, steps // VALIDATIONS),
        "patience": 0 if minutes else VALIDATIONS // 4,
    }
    own = {} if has_own_shape(overrides) else {**size.model, "tied": False}
    model: dict[str, Json] = {**own, "max_positions": context, "dropout": dropout_for(tokens / epoch_tokens)}
    data: dict[str, Json] = {
        "vocabulary": vocabulary_for(surveyed.num_bytes),
        "context": context,
        "crosses_documents": not surveyed.has_conversations,
    }
    return {"data": data, "model": model, "train": train}


def is_tied(overrides: Overrides) -> bool:
    """Return whether the embedding and the head will be one matrix: in models of the plan they are two."""
    return bool(overrides.get("model", {}).get("tied", has_own_shape(overrides)))


def context_for(overrides: Overrides) -> int:
    """Return the tokens per row: the user's choice, or the number of the model's positions."""
    asked = overrides.get("data", {}).get("context") or overrides.get("model", {}).get("max_positions") or CONTEXT
    return asked if isinstance(asked, int) else CONTEXT  # the recipe refuses anything but a number


def size_for(epoch_tokens: float, budget: float) -> Size:
    """Return the size to train in a budget of core seconds (0: unlimited)."""
    fitting = (size for size in SIZES if tokens_for(size, epoch_tokens, budget) < size.enough_tokens)
    return next(fitting, SMALL)


def tokens_for(size: Size, epoch_tokens: float, budget: float) -> float:
    """Return the training tokens: as many as there is time for, within the most epochs."""
    if budget:
        return min(budget * size.speed, MOST_EPOCHS * epoch_tokens)
    return usual_epochs(epoch_tokens) * epoch_tokens


def usual_epochs(epoch_tokens: float) -> float:
    """Return the epochs of a run without a time budget: the less text, the more."""
    return max(1.0, min(MOST_EPOCHS, MOST_EPOCHS * (250_000 / epoch_tokens) ** 0.5))


def vocabulary_for(num_bytes: int) -> int:
    """Return the number of subwords to learn: the more text, the more of them occur often enough."""
    return pick(num_bytes, ((100_000, 600), (500_000, 1000), (2_000_000, 2000), (5_000_000, 4000)), 8000)


def dropout_for(epochs: float) -> float:
    """Return the dropout: the more often a text is seen, the more it is memorised."""
    return pick(epochs, ((3, 0.0), (8, 0.1), (20, 0.2)), 0.3)


def explain(surveyed: Survey, recipe: GenerateRecipe, overrides: Overrides) -> Iterator[str]:
    """Yield the choices, with the reason for each that the user left to the plan."""
    model, train, data = recipe.model, recipe.train, recipe.data
    yield from describe_text(surveyed, recipe)
    why = "" if "vocabulary" in overrides.get("data", {}) else ", chosen for this much text"
    named = {"characters": "one token for each common character", "bytes": "one token for each byte"}
    yield named.get(data.subwords, f"{data.vocabulary:,} subwords{why}")
    why = "" if "model" in overrides else ", chosen for this much text and time"
    yield f"{model.layers} layers of width {model.d_model}, dropout {model.dropout:g}{why}"
    if train.initialise == "bigrams":
        yield "initialises embeddings and head from bigram counts, so that training starts from a bigram model"
    yield f"{train.summary}; the best model is kept"


def describe_text(surveyed: Survey, recipe: GenerateRecipe) -> Iterator[str]:
    """Yield what the text is, how it is packed and what is held out."""
    data = recipe.data
    if surveyed.has_conversations:
        count = f"{surveyed.num_documents:,} conversations, {surveyed.num_characters:,} characters"
        yield f"{count}; only the assistant's messages are learned"
        yield f"conversations are packed whole into rows of up to {data.context:,} tokens{seen(surveyed, recipe)}"
    else:
        count = "1 document" if surveyed.num_documents == 1 else f"{surveyed.num_documents:,} documents"
        yield f"{count} ({surveyed.separation}), {surveyed.num_characters:,} characters"
        yield f"packed into rows of {data.context:,} tokens without padding{seen(surveyed, recipe)}"


def seen(surveyed: Survey, recipe: GenerateRecipe) -> str:
    """Return in words whether attention crosses documents."""
    if surveyed.num_documents == 1:
        return ""
    if recipe.data.crosses_documents:
        return "; attention crosses the documents of a row (data.crosses_documents)"
    return "; attention stays within a document (data.crosses_documents=false)"


def describe_held_out(surveyed: Survey, recipe: GenerateRecipe) -> str:
    """Return in words what is held out of the text where no other is given."""
    most = recipe.data.valid_bytes
    return f"at most {most:,} bytes are held out to validate on: {choose_held_out(surveyed, most)}"


def concerns(surveyed: Survey) -> Iterator[str]:
    """Yield warnings about the text."""
    if surveyed.left_out:
        names = ", ".join(path.name for path in surveyed.left_out[:3])
        more = " …" if len(surveyed.left_out) > 3 else ""
        yield f"left out {len(surveyed.left_out):,} files that are not text ({names}{more})"
    if surveyed.num_bytes < 500_000 and not surveyed.has_conversations:
        yield f"{surveyed.num_bytes:,} bytes are very little text: the model will memorise it and little more."
