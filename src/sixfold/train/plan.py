"""The plan: what to train, chosen from the corpus and the machine, with the reason for each choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from sixfold.machine import num_cores
from sixfold.models.folder import Json
from sixfold.models.transformer import Transformer, TransformerConfig, count_parameters
from sixfold.train.prepare import Survey
from sixfold.train.recipe import Recipe, Wishes, make_recipe, merge

CHARACTERS_A_TOKEN = 4.2  # about, for the vocabularies chosen here
SMALL_TOKENS_A_SECOND, QUICK_SPEEDUP = 2400, 1.4  # about, on one core
QUICK: dict[str, Json] = {"layers": 2, "d_model": 256, "d_ff": 512, "heads": 4}
Number = TypeVar("Number", int, float)
UNLIMITED = 10**9  # steps of a run that the clock ends
FEWEST_EPOCHS = 8  # with less time than this many passes of the small model, a quicker one learns more
FEWEST_SUBWORDS, A_FEW, WORDS_A_CHARACTER = 2000, 5, 4
WIDE_SPREAD = 1.6  # lengths so different that most words stand in texts longer than most texts
JOIN = 0.4  # of the steps, where they do: what is learned from the many short texts serves the long ones
LENGTH_PENALTY = 1.2  # small models leave out what they do not know; the paper's 0.6 makes that worse


@dataclass(frozen=True)
class Plan:
    """A complete recipe and, in plain words, why it is this one."""

    recipe: Recipe
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def choose(surveyed: Survey, wishes: Wishes, device: str = "cpu") -> Plan:
    """Choose everything the user did not."""
    minutes = wishes.get("train", {}).get("minutes", 0)
    automatic = choices(surveyed, float(minutes) if isinstance(minutes, int | float) else 0.0, device)
    if {"preset", "d_model"} & wishes.get("model", {}).keys():  # a model of the user's own keeps none of ours
        automatic["model"] = {}
    recipe = make_recipe(merge(automatic, wishes))
    reasons = explain(surveyed, recipe, wishes)
    return Plan(recipe, tuple(reasons), tuple(concerns(surveyed.num_pairs, parameter_count(recipe))))


def choices(surveyed: Survey, minutes: float, device: str) -> Wishes:
    """Return the automatic recipe."""
    pairs = surveyed.num_pairs
    epoch_tokens = pairs * (surveyed.mean_characters / CHARACTERS_A_TOKEN + 1)
    affordable = minutes * 60 * num_cores() * SMALL_TOKENS_A_SECOND / epoch_tokens
    is_quick = device == "cpu" and 0 < affordable < FEWEST_EPOCHS
    is_large = pairs >= 1_000_000 and device != "cpu"
    epochs = max(5.0, min(80.0, 30 * (29_000 / pairs) ** 0.5))
    if minutes and device == "cpu":
        epochs = QUICK_SPEEDUP * affordable if is_quick else affordable
    vocabulary = vocabulary_for(surveyed)
    batch_tokens = 25_000 if is_large else 384 if is_quick else 1024 if pairs < 200_000 else 4096
    dropout = 0.1 if is_large else dropout_for(epochs)
    steps = max(300, round(epochs * epoch_tokens / batch_tokens))
    size: dict[str, Json] = QUICK if is_quick else {"preset": "base" if is_large else "small"}
    train: dict[str, Json] = {
        "start": "words",
        "batch_tokens": batch_tokens,
        "schedule": "linear_decay",
        "learning_rate": 7e-4 if is_large else 1e-3,
        "warmup_steps": 100 if minutes and not is_large else max(20, min(4000 if is_large else 400, steps // 20)),
        "max_grad_norm": 1.0,
        "steps": UNLIMITED if minutes else steps,
        "checkpoint_every": max(50, steps // 25),
        "patience": 0 if minutes else 10,
        "valid_sentences": 200 if is_quick else 500,
    }
    model: dict[str, Json] = {**size, "dropout": dropout, "norm": "pre"}
    decode: dict[str, Json] = {} if is_large else {"length_penalty": LENGTH_PENALTY}
    data: dict[str, Json] = {"vocabulary": vocabulary, "join": JOIN if surveyed.spread > WIDE_SPREAD else 0.0}
    return {"data": data, "model": model, "train": train, "decode": decode}


def vocabulary_for(surveyed: Survey) -> int:
    """Return how many subwords to learn: as many as there are words that occur a few times.

    Where words are not written apart there are few; then the characters count.
    """
    most = pick(surveyed.num_pairs, ((500_000, 8000), (2_000_000, 16_000)), 37_000)
    words: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    for pair in surveyed.sample:
        for text in (pair.source, pair.target):
            words.update(text.split())
            characters.update(text)
    wanted = max(num_common(words), WORDS_A_CHARACTER * num_common(characters))
    return max(FEWEST_SUBWORDS, min(most, round(wanted, -2)))


def num_common(counted: Counter[str]) -> int:
    """Return how many different things occur a few times."""
    return sum(times >= A_FEW for times in counted.values())


def dropout_for(epochs: float) -> float:
    """Return how much to drop: the more often a text is seen, the sooner it is learned by heart."""
    return pick(epochs, ((10, 0.0), (15, 0.1), (25, 0.2)), 0.3)


def explain(surveyed: Survey, recipe: Recipe, wishes: Wishes) -> Iterator[str]:
    """Yield what will be trained, and for what was not asked for, why."""
    model, train = recipe.model, recipe.train
    yield (
        f"{surveyed.num_pairs:,} pairs, {surveyed.source_characters:.0f} and "
        f"{surveyed.target_characters:.0f} characters each"
    )
    why = "" if "data" in wishes else ": about as many as words that occur a few times"
    yield f"{recipe.data.vocabulary:,} subwords for both languages{why}"
    if recipe.data.join:
        why = "" if "data" in wishes else ": most texts are short, and most words stand in long ones"
        yield f"joins pairs to longer ones in {recipe.data.join:.0%} of the steps{why}"
    why = "" if "model" in wishes else ": as large as this much text and time can teach"
    layers = f"{model.encoder_layers} + {model.decoder_layers} layers of width {model.d_model}"
    yield f"{layers}, dropout {model.dropout}{why}"
    if train.start == "words":
        yield "begins with words near their translations: what occurs together in the pairs tells which these are"
    length = f"{train.minutes:g} minutes" if train.minutes else f"{train.steps:,} steps"
    falling = "; the learning rate falls to zero" if train.schedule == "linear_decay" else ""
    yield f"{length} of {train.batch_tokens:,} tokens a step{falling}; the best model is kept"
    why = "" if "decode" in wishes else ": a small model would rather leave out what it does not know"
    beam, penalty = recipe.decode.beam, recipe.decode.length_penalty
    yield f"translates with a beam of {beam} and a length penalty of {penalty}{why}"


def concerns(pairs: int, parameters: int) -> Iterator[str]:
    """Yield what a person should know before training on so little text."""
    if pairs < 2000:
        yield f"{pairs:,} pairs are very few: expect a model that knows these texts and little else."
    if parameters > 500 * pairs:
        yield f"{parameters / 1e6:.1f}M parameters are many for {pairs:,} pairs: it will learn them by heart."


def pick(value: float, table: tuple[tuple[float, Number], ...], otherwise: Number) -> Number:
    """Return the entry of the first row whose bound is above the value."""
    return next((entry for bound, entry in table if value < bound), otherwise)


def parameter_count(recipe: Recipe) -> int:
    """Return how many parameters the recipe's model has."""
    import torch

    config = TransformerConfig(**recipe.model.model_dump(), vocabulary=recipe.data.vocabulary)
    with torch.device("meta"):
        return count_parameters(Transformer(config))
