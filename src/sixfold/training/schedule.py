"""Learning-rate schedules: steps are counted from 1, the progress of the run goes from 0 to 1."""

from __future__ import annotations

import math

from sixfold.training.recipe import TrainConfig

FLOOR = 0.1  # of the peak, at the end of a cosine


def learning_rate(config: TrainConfig, d_model: int, step: int, progress: float) -> float:
    """Return the learning rate of a step."""
    peak, warmup = peak_rate(config, d_model), config.warmup_steps
    if config.schedule == "linear_decay":
        return linear_decay(step, progress, peak, warmup)
    if config.schedule == "cosine":
        return cosine(step, progress, peak, warmup)
    return inverse_square_root(step, d_model, warmup) * peak / paper_peak(d_model, warmup)


def peak_rate(config: TrainConfig, d_model: int) -> float:
    """Return the largest learning rate."""
    return config.learning_rate or paper_peak(d_model, config.warmup_steps)


def inverse_square_root(step: int, d_model: int, warmup_steps: int) -> float:
    """Learning rate at a step: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (section 5.3, equation 3)."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def paper_peak(d_model: int, warmup_steps: int) -> float:
    """The largest learning rate of the paper's schedule, reached at the end of warm-up."""
    return inverse_square_root(warmup_steps, d_model, warmup_steps)


def linear_decay(step: int, progress: float, peak: float, warmup_steps: int) -> float:
    """Rise linearly to the peak, then fall linearly to 0 at the end of the run."""
    return peak * min(step / warmup_steps, 1.0) * max(0.0, 1.0 - progress)


def cosine(step: int, progress: float, peak: float, warmup_steps: int) -> float:
    """Rise linearly to the peak, then fall along half a cosine to a tenth of it."""
    fallen = (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0))) / 2
    return peak * min(step / warmup_steps, 1.0) * (FLOOR + (1 - FLOOR) * fallen)
