"""Estimate the cost of a training run from a few real steps on this machine."""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from sixfold.callbacks import OnProgress
from sixfold.data.batches import Batches, Position
from sixfold.data.shards import Corpus
from sixfold.machine import choose_device
from sixfold.models.encoder_decoder import count_parameters
from sixfold.training.base import read_base
from sixfold.training.micro_batches import num_data_parallel
from sixfold.training.recipe import Plan, Recipe, merge
from sixfold.training.run import prepare_machine
from sixfold.training.setup import Request, new_model, propose
from sixfold.training.step import TrainStepper
from sixfold.training.task import Given, Learner, Task

MEASURED_EXAMPLES = 20_000
WARM_STEPS, FEWEST_STEPS, MOST_STEPS = 2, 4, 60
ENOUGH_SECONDS = 5.0  # of measured steps
MEASURED_IN_VALIDATION = 64  # examples
BYTES_AN_EXAMPLE = 16  # in memory while training: its lengths, its index in this epoch and the next


@dataclass(frozen=True)
class Speed:
    """The measurements on this machine."""

    preparation_seconds: float  # reading, fitting the processor, encoding, initialisation
    seconds_a_step: float
    targets_a_second: float
    validation_seconds: float
    padding_share: float


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a training run."""

    plan: Plan
    device: str
    parameters: int
    steps: int
    speed: Speed
    seconds: float  # an upper bound: early stopping can end it sooner
    memory_bytes: int
    disk_bytes: int


def estimate(task: Task, request: Request, on_progress: OnProgress) -> Estimate:
    """Plan a training run and measure a few of its steps on a sample of the data."""
    began = time.monotonic()
    prepare_machine()
    device, overrides = choose_device(request.device), request.overrides(task)
    examples = task.read(request.inputs, overrides)
    base = None if request.init is None else read_base(request.init, task)
    inherited = task.inherit(base, examples, overrides) if base else {}
    survey = task.survey(examples, 1, on_progress)
    plan = propose(task, survey, merge(task.recipe, inherited, overrides), device, base)
    recipe, processor = plan.recipe, task.fit(survey, plan.recipe, base)
    read_seconds = time.monotonic() - began
    with tempfile.TemporaryDirectory() as folder:
        given = Given(None, None, survey, recipe, processor)
        corpus = task.prepare_sample(Path(folder), given, MEASURED_EXAMPLES)
        share = survey.num_examples / min(survey.num_examples, len(survey.sample), MEASURED_EXAMPLES)
        learner = task.learner(recipe, processor)
        model = new_model(learner, recipe).to(device)
        encode_seconds = time.monotonic() - began - read_seconds
        start_seconds = measure_start(learner, model, corpus)
        start_share = min(share, learner.most_initialised / MEASURED_EXAMPLES)
        speed = Speed(
            read_seconds + share * encode_seconds + start_share * start_seconds,
            *measure_steps(learner, model, corpus, recipe),
            measure_validation(learner, model, corpus, recipe) * (2 if base else 1),  # also on the base's own text
            Batches(learner.sizes(corpus), recipe.train.batch_tokens, seed=1).padding_share(),
        )
        disk = disk_bytes(recipe, model, int(share * corpus.num_bytes))
    return Estimate(
        plan=plan,
        device=device,
        parameters=count_parameters(model),
        steps=recipe.train.steps,
        speed=speed,
        seconds=whole_time(recipe, speed, num_validations(recipe) + (base is not None)),
        memory_bytes=memory_bytes(recipe, model, survey.num_examples, device),
        disk_bytes=disk,
    )


def whole_time(recipe: Recipe, speed: Speed, validations: int) -> float:
    """Return the duration of a whole run with this many validations."""
    steps = recipe.train.steps * speed.seconds_a_step
    seconds = speed.preparation_seconds + steps + validations * speed.validation_seconds
    return min(seconds, recipe.train.minutes * 60 or float("inf"))


def num_validations(recipe: Recipe) -> int:
    """Return the number of validations of a whole run, each with its checkpoint."""
    return -(-recipe.train.steps // recipe.train.checkpoint_every)


def disk_bytes(recipe: Recipe, model: nn.Module, corpus_bytes: int) -> int:
    """Return the size of the folder: the model, its checkpoints, the prepared corpus."""
    weights = 4 * count_parameters(model)
    checkpoints = min(num_validations(recipe), recipe.train.average + 1)  # the averaged ones and the best
    copies = 4 if recipe.train.ema else 3  # the weights, Adam's two moments, the moving average
    return weights + copies * weights * checkpoints + corpus_bytes


def memory_bytes(recipe: Recipe, model: nn.Module, examples: int, device: str) -> int:
    """Return the estimated memory: that measured, checkpoints to average, and the index of the corpus."""
    if device != "cpu":
        return peak_memory(device)
    to_average = recipe.train.average if recipe.train.average > 1 else 0
    return peak_memory(device) + 4 * count_parameters(model) * to_average + BYTES_AN_EXAMPLE * examples


def measure_start(learner: Learner, model: nn.Module, corpus: Corpus) -> float:
    """Initialise as the recipe says, and return the time it took."""
    began = time.monotonic()
    learner.initialise(model, corpus)
    return time.monotonic() - began


def measure_steps(learner: Learner, model: nn.Module, corpus: Corpus, recipe: Recipe) -> tuple[float, float]:
    """Return the mean seconds of a real training step, and the targets per second."""
    config, device = recipe.train, next(model.parameters()).device
    stepper = TrainStepper(
        learner.loss, model.train(), config, num_data_parallel(config.batch_tokens, device, world=1)
    )
    batches = Batches(learner.sizes(corpus), config.batch_tokens, seed=1).from_position(Position())
    seconds: list[float] = []
    targets: list[int] = []
    while len(seconds) < MOST_STEPS and (
        len(seconds) < WARM_STEPS + FEWEST_STEPS or sum(seconds[WARM_STEPS:]) < ENOUGH_SECONDS
    ):
        began, step = time.monotonic(), len(seconds)
        batch = learner.collate(corpus.read(next(batches)[0]), seed=step)
        stepper.train_step(batch, learning_rate=0.0, step=step)
        seconds.append(time.monotonic() - began)
        targets.append(batch.num_targets)
    measured, counted = sum(seconds[WARM_STEPS:]), sum(targets[WARM_STEPS:])
    return measured / (len(seconds) - WARM_STEPS), counted / measured


def measure_validation(learner: Learner, model: nn.Module, corpus: Corpus, recipe: Recipe) -> float:
    """Return the estimated duration of a validation, from a small one."""
    validator = learner.validator(corpus, MEASURED_IN_VALIDATION)
    began = time.monotonic()
    validator.loss(model, nothing)
    loss_seconds = time.monotonic() - began
    validator.measure(model, nothing)
    measure_seconds = time.monotonic() - began - loss_seconds
    weights_tried = 2 if recipe.train.average > 1 else 1
    whole = weights_tried * loss_seconds + measure_seconds * validator.trained_share
    return whole * learner.num_validated / min(MEASURED_IN_VALIDATION, len(corpus))


def nothing() -> None:
    """Never stop a validation."""


def peak_memory(device: str) -> int:
    """Return the peak memory use."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
