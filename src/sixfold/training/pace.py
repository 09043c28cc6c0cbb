"""How fast a core of this machine trains, beside the core on which the plan's speeds were measured."""

from __future__ import annotations

import time

import torch

from sixfold.models.encoder_decoder import PRESETS, EncoderDecoder, EncoderDecoderConfig
from sixfold.text.tokens import PAD_ID
from sixfold.training.loss import Objective
from sixfold.training.plan import minutes_of
from sixfold.training.recipe import Wishes
from sixfold.training.shares import Shares

VOCABULARY, SENTENCES, LENGTH = 8000, 32, 16
STEPS = 6  # the best counts: the first ones allocate
USUAL_SECONDS = 0.0925  # of such a step, where the plan's speeds were measured


def pace_for(wishes: Wishes, device: str) -> float:
    """Return the pace to plan with: measured where there is a time budget to be filled on a CPU."""
    return measure_pace() if device == "cpu" and minutes_of(wishes) else 1.0


def measure_pace() -> float:
    """Return how many times as fast as usual a core trains, from a few steps of a tiny model."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            return USUAL_SECONDS / min(seconds_of_steps())
    finally:
        torch.set_num_threads(num_threads)


def seconds_of_steps() -> list[float]:
    """Return the CPU time of forward and backward, step by step: a neighbour disturbs it less than the clock."""
    model = EncoderDecoder(EncoderDecoderConfig(**PRESETS["tiny"].model_dump(), vocabulary=VOCABULARY)).train()
    shares = Shares(Objective(model, smoothing=0.1), 1)
    seconds = []
    for step in range(STEPS):
        inputs = [*torch.randint(PAD_ID + 1, VOCABULARY, (3, SENTENCES, LENGTH))]
        began = time.thread_time()
        shares.backward(inputs, 1.0, (step,))
        seconds.append(time.thread_time() - began)
        model.zero_grad(set_to_none=True)
    return seconds
