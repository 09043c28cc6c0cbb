"""Calibration: how fast a core trains, relative to the core on which the plan's speeds were measured."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor, nn

from sixfold.models.encoder_decoder import PRESETS, EncoderDecoder, EncoderDecoderConfig
from sixfold.nn.loss import projected_loss
from sixfold.settings import Overrides
from sixfold.training.recipe import TrainConfig, minutes_of
from sixfold.training.step import TrainStepper
from sixfold.training.task import Batch

VOCABULARY, SENTENCES, LENGTH = 8000, 32, 16
STEPS = 6  # the best counts: the first ones allocate
REFERENCE_SECONDS = 0.0925  # of such a step on the core where the plan's speeds were measured


def calibrated_speed(overrides: Overrides, device: str) -> float:
    """Return the speed of a core for planning: measured if a time budget limits training on a CPU, else 1."""
    return measure_core_speed() if device == "cpu" and minutes_of(overrides) else 1.0


def measure_core_speed() -> float:
    """Return the speed of a core relative to the reference, from a few steps of a tiny model."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            return REFERENCE_SECONDS / min(seconds_of_steps())
    finally:
        torch.set_num_threads(num_threads)


def seconds_of_steps() -> list[float]:
    """Return the CPU time of each step: other processes disturb it less than elapsed time."""
    model = EncoderDecoder(EncoderDecoderConfig(**PRESETS["tiny"].model_dump(), vocabulary=VOCABULARY)).train()
    stepper = TrainStepper(random_loss, model, TrainConfig())
    seconds = []
    for step in range(STEPS):
        batch = random_batch()
        began = time.thread_time()
        stepper.train_step(batch, learning_rate=1e-3, step=step)
        seconds.append(time.thread_time() - began)
    return seconds


def random_batch() -> Batch:
    """Return sentences of random tokens, of usual length."""
    sides = torch.randint(1, VOCABULARY, (3, SENTENCES, LENGTH))
    names = ("source", "target_in", "target_out")
    return Batch(dict(zip(names, sides, strict=True)), SENTENCES * LENGTH, np.arange(SENTENCES, dtype=np.uint32))


def random_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss of a step as training computes it."""
    assert isinstance(model, EncoderDecoder)
    hidden = model.hidden(batch.tensors["source"], batch.tensors["target_in"]).flatten(0, 1)
    return projected_loss(hidden, model.head.weight, batch.tensors["target_out"].flatten(), 0.1)
