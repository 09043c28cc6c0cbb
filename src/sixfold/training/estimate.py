"""What a training would cost: a few real steps, measured on this machine."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from sixfold.data.batches import Batches, Position, gather
from sixfold.data.readers import Pair, open_pairs
from sixfold.data.shards import Corpus, ShardWriter
from sixfold.errors import DataError
from sixfold.machine import choose_device
from sixfold.models.encoder_decoder import EncoderDecoder, count_parameters
from sixfold.models.ensemble import make_ensemble
from sixfold.text import Tokenizer
from sixfold.ticks import Tick
from sixfold.training.loss import Objective
from sixfold.training.optimizer import clip_each, make_adam
from sixfold.training.pace import pace_for
from sixfold.training.plan import Plan, choose
from sixfold.training.prepare import Skipped, encode, learn_tokenizer, survey
from sixfold.training.recipe import Recipe, merge, parse_settings, read_recipe
from sixfold.training.run import prepare_machine
from sixfold.training.shares import Shares, num_shares
from sixfold.training.start import MOST_PAIRS, start_from_words
from sixfold.training.validate import EXTRA_TOKENS, Validator
from sixfold.training.vary import vary

MEASURED_PAIRS = 20_000
WARM_STEPS, FEWEST_STEPS, MOST_STEPS = 2, 4, 60
ENOUGH_SECONDS = 5.0  # of measured steps
MEASURED_SENTENCES = 64  # of a validation
BYTES_A_PAIR = 16  # in memory while training: its lengths, its place in this epoch and the next


@dataclass(frozen=True)
class Speed:
    """What was measured on this machine."""

    preparation_seconds: float  # reading, subwords, encoding, the start
    seconds_a_step: float
    tokens_a_second: float
    validation_seconds: float
    padding_share: float


@dataclass(frozen=True)
class Estimate:
    """The cost of a training."""

    plan: Plan
    device: str
    parameters: int
    steps: int
    speed: Speed
    seconds: float  # at most: early stopping can end it sooner
    memory_bytes: int
    disk_bytes: int


def estimate(
    source: str | Path,
    target: str | Path | None,
    recipe: str | None,
    settings: Sequence[str],
    minutes: float,
    device: str,
    tick: Tick,
) -> Estimate:
    """Plan a training and measure a few of its steps on a sample of the corpus."""
    began = time.monotonic()
    prepare_machine()
    chosen = choose_device(device)
    surveyed = survey(open_pairs(source, target), seed=1, tick=tick)
    wishes = merge(read_recipe(recipe) if recipe else {}, parse_settings(settings))
    wishes = merge(wishes, {"train": {"minutes": minutes}} if minutes else {})
    plan = choose(surveyed, wishes, chosen, pace_for(wishes, chosen))
    tokenizer = learn_tokenizer(surveyed.sample, plan.recipe.data)
    read_seconds = time.monotonic() - began
    with tempfile.TemporaryDirectory() as folder:
        corpus = sample_corpus(Path(folder), islice(surveyed.sample, MEASURED_PAIRS), tokenizer, plan.recipe)
        share = surveyed.num_pairs / min(len(surveyed.sample), MEASURED_PAIRS)
        config = plan.recipe.model.config(tokenizer.vocabulary)
        model = make_ensemble(lambda: EncoderDecoder(config), plan.recipe.model.members).to(chosen)
        encode_seconds = time.monotonic() - began - read_seconds
        start_seconds = measure_start(model, corpus, plan.recipe)
        speed = Speed(
            read_seconds + share * encode_seconds + min(share, MOST_PAIRS / MEASURED_PAIRS) * start_seconds,
            *measure_steps(model, corpus, tokenizer, plan.recipe),
            measure_validation(model, corpus, tokenizer, plan.recipe),
            Batches(corpus, plan.recipe.train.batch_tokens, seed=1).padding_share(),
        )
        disk = disk_bytes(plan.recipe, model, int(share * corpus.num_bytes))
    return Estimate(
        plan=plan,
        device=chosen,
        parameters=count_parameters(model),
        steps=plan.recipe.train.steps,
        speed=speed,
        seconds=whole_time(plan.recipe, speed),
        memory_bytes=memory_bytes(plan.recipe, model, surveyed.num_pairs, chosen),
        disk_bytes=disk,
    )


def whole_time(recipe: Recipe, speed: Speed) -> float:
    """Return the time of a whole run."""
    steps = recipe.train.steps * speed.seconds_a_step
    validations = num_validations(recipe) * speed.validation_seconds
    return min(speed.preparation_seconds + steps + validations, recipe.train.minutes * 60 or float("inf"))


def num_validations(recipe: Recipe) -> int:
    """Return how many validations, each with its checkpoint, a whole run has."""
    return -(-recipe.train.steps // recipe.train.checkpoint_every)


def disk_bytes(recipe: Recipe, model: nn.Module, tokens: int) -> int:
    """Return what the folder will take: the model, checkpoints with two moments each, the tokens of the corpus."""
    weights = 4 * count_parameters(model)
    checkpoints = min(num_validations(recipe), recipe.train.average + 1)  # those that are averaged, and the best
    return weights + 3 * weights * checkpoints + tokens


def memory_bytes(recipe: Recipe, model: nn.Module, pairs: int, device: str) -> int:
    """Return about what a run needs: what was measured, checkpoints to average, and the index of the corpus."""
    if device != "cpu":
        return peak_memory(device)
    to_average = recipe.train.average if recipe.train.average > 1 else 0
    return peak_memory(device) + 4 * count_parameters(model) * to_average + BYTES_A_PAIR * pairs


def sample_corpus(folder: Path, sample: Iterable[Pair], tokenizer: Tokenizer, recipe: Recipe) -> Corpus:
    """Prepare a small part of the corpus."""
    encoded = encode(list(sample), tokenizer, recipe.data.max_tokens, Skipped())
    if not encoded:
        raise DataError(f"Every pair is empty or longer than {recipe.data.max_tokens} tokens.")
    writer = ShardWriter(folder, tokenizer.vocabulary)
    writer.write(encoded)
    writer.close()
    return Corpus(folder, tokenizer.vocabulary)


def measure_start(model: nn.Module, corpus: Corpus, recipe: Recipe) -> float:
    """Begin as the recipe says, and return how long that took."""
    began = time.monotonic()
    if recipe.train.start == "words":
        start_from_words(model, corpus)
    return time.monotonic() - began


def measure_steps(model: nn.Module, corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe) -> tuple[float, float]:
    """Return the mean seconds of a real training step, and the target tokens in a second."""
    device, optimizer = next(model.parameters()).device, make_adam(model)
    objective = Objective(model.train(), recipe.train.label_smoothing)
    shares = Shares(objective, num_shares(recipe.train.batch_tokens, device, world=1))
    batches = Batches(corpus, recipe.train.batch_tokens, seed=1).from_position(Position())
    seconds: list[float] = []
    tokens: list[int] = []
    while len(seconds) < MOST_STEPS and (
        len(seconds) < WARM_STEPS + FEWEST_STEPS or sum(seconds[WARM_STEPS:]) < ENOUGH_SECONDS
    ):
        began, seed = time.monotonic(), len(seconds)
        varied = partial(vary, recipe=recipe, tokenizer=tokenizer, seed=seed)
        batch = gather(corpus, next(batches)[0], varied)
        sides = (batch.source, batch.target_in, batch.target_out)
        inputs = [torch.from_numpy(side).to(device) for side in sides]
        shares.backward(inputs, 1 / batch.num_target_tokens, (1, seed))
        clip_each(model, recipe.train.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.monotonic() - began)
        tokens.append(batch.num_target_tokens)
    measured, counted = sum(seconds[WARM_STEPS:]), sum(tokens[WARM_STEPS:])
    return measured / (len(seconds) - WARM_STEPS), counted / measured


def measure_validation(model: nn.Module, corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe) -> float:
    """Return about how long a validation will take, from a small one.

    This model has learned nothing and rambles on to the limit, where a trained one ends with the sentence.
    """
    sentences = min(MEASURED_SENTENCES, len(corpus))
    validator = Validator(corpus, tokenizer, sentences)
    began = time.monotonic()
    validator.loss(model, nothing)
    loss_seconds = time.monotonic() - began
    validator.translate(model, nothing)
    translate_seconds = time.monotonic() - began - loss_seconds
    source, target = (
        float(lengths[:sentences].mean()) for lengths in (corpus.source_lengths, corpus.target_lengths)
    )
    rambling = (source + EXTRA_TOKENS) / (target + 1)
    weights_tried = 2 if recipe.train.average > 1 else 1
    share = min(recipe.train.valid_sentences, recipe.data.valid_pairs) / sentences
    return share * (weights_tried * loss_seconds + translate_seconds / rambling)


def nothing() -> None:
    """Let a validation go on."""


def peak_memory(device: str) -> int:
    """Return the most memory that was in use."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
