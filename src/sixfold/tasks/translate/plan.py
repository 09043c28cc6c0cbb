"""The plan for a new model: chosen from the corpus and the machine, with the reason for each choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sixfold.machine import num_cores
from sixfold.models.encoder_decoder import EncoderDecoder, count_parameters
from sixfold.models.folder import Json
from sixfold.settings import Overrides
from sixfold.tasks.translate.prepare import Survey
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.training.recipe import UNLIMITED, Plan, has_own_shape, make_recipe, merge, minutes_of, pick

CHARACTERS_A_TOKEN = 4.2  # approximately, for the vocabularies chosen here
FEWEST_EPOCHS = 8  # if time allows fewer epochs of the small model, a faster one learns more
FEW_PAIRS, FEW_WORDS = 2000, 3300  # the capacity of a narrow model
MANY_PAIRS, MANY_EPOCHS = 100_000, 20  # with both, a wider model learns more
FEWEST_SUBWORDS, A_FEW, WORDS_A_CHARACTER = 2000, 5, 4
WIDE_SPREAD = 1.6  # of `Survey.spread`: most words are in texts that are longer than most texts
CONCATENATE = 0.4  # fraction of batches above that spread, so that short texts teach long ones too
LENGTH_PENALTY = 1.2  # small models tend to drop words; a higher penalty than the paper's 0.6 counters it
LONG = 25  # epochs
EPOCHS_A_MEMBER, STEPS_A_MEMBER = 60, 4000  # approximately: with less, longer training gains more than an ensemble
MOVING_AVERAGE = 0.998  # decay; validated along with the current weights, and the better of both is kept
OFTEN_SEEN = 15  # epochs from which on it helps; in shorter runs it lags behind
DROPOUT_WARMUP = 0.6  # of the run; dropout helps when text is seen again, and slows learning while it is new


@dataclass(frozen=True)
class Size:
    """A model size that the plan may choose, and how to train it."""

    model: dict[str, Json]
    batch_tokens: int
    learning_rate: float
    speed: int  # approximate target tokens per second on one core of the reference speed
    epochs: int = 30  # over 29,000 pairs, without a time budget
    own: Overrides = field(default_factory=dict)  # choices that differ from those for all sizes


TINY = Size({"preset": "tiny"}, batch_tokens=1024, learning_rate=2e-3, speed=5500, epochs=60)
QUICK = Size(
    {"layers": 2, "d_model": 256, "d_ff": 512, "heads": 4},
    batch_tokens=384,
    learning_rate=1e-3,
    speed=3400,
    own={"train": {"valid_sentences": 200}},
)
SMALL = Size({"preset": "small"}, batch_tokens=1024, learning_rate=1e-3, speed=2400)
SMALL_FOR_MUCH = replace(SMALL, batch_tokens=4096)
BASE = Size(
    {"preset": "base"},
    batch_tokens=25_000,
    learning_rate=7e-4,
    speed=300,
    own={
        "model": {"dropout": 0.1},
        "train": {"dropout_warmup": 0.0, "ema": 0.0},
        "decode": {"length_penalty": 0.6},
    },
)


def choose(surveyed: Survey, overrides: Overrides, device: str = "cpu", core_speed: float = 1.0) -> Plan:
    """Choose everything that the user left open, for a core of `core_speed` times the reference speed."""
    automatic = choices(surveyed, minutes_of(overrides), requested_models(overrides), device, core_speed)
    if has_own_shape(overrides):
        automatic["model"] = {}
    recipe = make_recipe(TranslateRecipe, merge(TranslateRecipe, automatic, overrides))
    reasons = explain(surveyed, recipe, overrides)
    each = parameter_count(recipe) // recipe.model.ensemble
    return Plan(recipe, tuple(reasons), tuple(concerns(surveyed.num_examples, each)))


def requested_models(overrides: Overrides) -> int:
    """Return the number of models that the user requests, or 0 to let the plan choose."""
    members = overrides.get("model", {}).get("ensemble", 1 if has_own_shape(overrides) else 0)
    return max(0, members) if isinstance(members, int) else 0


def choices(surveyed: Survey, minutes: float, members: int, device: str, core_speed: float) -> Overrides:
    """Return the automatic recipe for this many models (0: the plan chooses)."""
    pairs, budget = surveyed.num_examples, minutes * core_speed if device == "cpu" else 0.0
    epoch_tokens = pairs * (surveyed.mean_characters / CHARACTERS_A_TOKEN + 1)
    size = size_for(surveyed, affordable(SMALL, budget, epoch_tokens), device)
    passes = affordable(size, budget, epoch_tokens)
    members = members or members_for(passes, passes * epoch_tokens / size.batch_tokens)
    epochs = passes / members or usual_epochs(size, pairs)
    steps = max(300, round(epochs * epoch_tokens / size.batch_tokens))
    train: dict[str, Json] = {
        "initialise": "cooccurrence",
        "batch_tokens": size.batch_tokens,
        "schedule": "linear_decay",
        "learning_rate": size.learning_rate,
        "warmup_steps": warmup_for(size, steps, minutes),
        "dropout_warmup": DROPOUT_WARMUP,
        "max_grad_norm": 1.0,
        "ema": MOVING_AVERAGE if epochs >= OFTEN_SEEN else 0.0,
        "steps": UNLIMITED if minutes else steps,
        "checkpoint_every": max(50, steps // 25),
        "patience": 0 if minutes else 10,
        "valid_sentences": 500,
    }
    model: dict[str, Json] = {**size.model, "dropout": dropout_for(epochs), "norm": "pre", "ensemble": members}
    decode: dict[str, Json] = {"length_penalty": LENGTH_PENALTY}
    concatenate = CONCATENATE if surveyed.spread > WIDE_SPREAD else 0.0
    data: dict[str, Json] = {"vocabulary": vocabulary_for(surveyed), "concatenate": concatenate}
    return merge(TranslateRecipe, {"data": data, "model": model, "train": train, "decode": decode}, size.own)


def affordable(size: Size, minutes: float, epoch_tokens: float) -> float:
    """Return the epochs that a model of this size can train in this time on all cores at the reference speed."""
    return minutes * 60 * num_cores() * size.speed / epoch_tokens


def usual_epochs(size: Size, pairs: int) -> float:
    """Return the epochs of a run without a time budget: the fewer the pairs, the more."""
    return max(5.0, min(80.0, size.epochs * (29_000 / pairs) ** 0.5))


def members_for(epochs: float, steps: float) -> int:
    """Return how many models to train in the time in which one would train for these epochs and steps."""
    affordable_members = min(epochs / EPOCHS_A_MEMBER, steps / STEPS_A_MEMBER)
    return pick(affordable_members, ((2, 1), (4, 2)), 4)


def size_for(surveyed: Survey, epochs: float, device: str) -> Size:
    """Return the size to train, given the epochs that the small model could train for (0: enough)."""
    pairs = surveyed.num_examples
    if pairs >= 1_000_000 and device != "cpu":
        return BASE
    is_soon_learned = pairs < MANY_PAIRS or 0 < epochs < MANY_EPOCHS
    if pairs < FEW_PAIRS or (is_soon_learned and surveyed.words_in_use < FEW_WORDS):
        return TINY
    if 0 < epochs < FEWEST_EPOCHS:
        return QUICK
    return SMALL if pairs < 200_000 else SMALL_FOR_MUCH


def vocabulary_for(surveyed: Survey) -> int:
    """Return the number of subwords to learn: the number of words that occur a few times.

    In text without spaces between words there are few; then the number of characters counts.
    """
    most = pick(surveyed.num_examples, ((500_000, 8000), (2_000_000, 16_000)), 37_000)
    characters: Counter[str] = Counter()
    for pair in surveyed.sample:
        characters.update(pair.source)
        characters.update(pair.target)
    useful = max(num_common(surveyed.words), WORDS_A_CHARACTER * num_common(characters))
    return max(FEWEST_SUBWORDS, min(most, round(useful, -2)))


def num_common(counted: Counter[str]) -> int:
    """Return the number of items that occur a few times."""
    return sum(times >= A_FEW for times in counted.values())


def dropout_for(epochs: float) -> float:
    """Return the dropout: the more often a text is seen, the more it is memorised."""
    return pick(epochs, ((10, 0.0), (15, 0.1), (LONG, 0.2)), 0.3)


def warmup_for(size: Size, steps: int, minutes: float) -> int:
    """Return the warm-up steps; with a time budget the number of steps is not known in advance."""
    if minutes and size is not BASE:
        return 100
    return max(20, min(4000 if size is BASE else 400, steps // 20))


def explain(surveyed: Survey, recipe: TranslateRecipe, overrides: Overrides) -> Iterator[str]:
    """Yield the choices, with the reason for each that the user left to the plan."""
    model, train = recipe.model, recipe.train
    sides = " ({} → {})".format(*surveyed.sides) if surveyed.sides else ""
    yield (
        f"{surveyed.num_examples:,} pairs{sides}, on average {surveyed.source_characters:.0f} and "
        f"{surveyed.target_characters:.0f} characters long"
    )
    why = "" if "data" in overrides else f", chosen by the number of words that occur at least {A_FEW} times"
    yield f"{recipe.data.vocabulary:,} subwords for both languages{why}"
    if recipe.data.concatenate:
        why = "" if "data" in overrides else ", because most training text is much shorter than the longest"
        yield f"concatenates short pairs in {recipe.data.concatenate:.0%} of the batches{why}"
    why = "" if "model" in overrides else ", chosen for this much text and time"
    layers = f"{model.encoder_layers} + {model.decoder_layers} layers of width {model.d_model}"
    rising = "rising from 0 to " if train.dropout_warmup and model.dropout else ""
    yield f"{layers}, dropout {rising}{model.dropout}{why}"
    if model.ensemble > 1:
        why = (
            ""
            if "ensemble" in overrides.get("model", {})
            else ", because several models make fewer errors than one where text is scarce"
        )
        yield f"trains an ensemble of {model.ensemble} such models and averages their probabilities{why}"
    if train.initialise == "cooccurrence":
        yield "initialises embeddings from word co-occurrence, so that translations start close together"
    yield f"{train.summary}; the best model is kept"
    if train.ema:
        why = (
            ""
            if "ema" in overrides.get("train", {})
            else ", because it scores higher where text is seen many times"
        )
        yield f"validates a moving average of the weights (decay {train.ema:g}) too{why}"
    beam, penalty = recipe.decode.beam, recipe.decode.length_penalty
    is_ours = "decode" not in overrides and penalty == LENGTH_PENALTY
    why = ", because small models tend to drop words and a higher penalty counters it" if is_ours else ""
    yield f"translates with beam {beam} and length penalty {penalty}{why}"


def concerns(pairs: int, parameters: int) -> Iterator[str]:
    """Yield warnings about too little text."""
    if pairs < 2000:
        yield f"{pairs:,} pairs are very few: the model will memorise them and learn little else."
    if parameters > 500 * pairs:
        yield f"{parameters / 1e6:.1f}M parameters are many for {pairs:,} pairs: the model will memorise them."


def parameter_count(recipe: TranslateRecipe) -> int:
    """Return the number of parameters of the recipe's model."""
    import torch

    with torch.device("meta"):
        return recipe.model.ensemble * count_parameters(
            EncoderDecoder(recipe.model.config(recipe.data.vocabulary))
        )
