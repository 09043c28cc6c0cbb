"""Learning-rate schedules: steps are counted from 1."""

from __future__ import annotations


def inverse_square_root(step: int, d_model: int, warmup_steps: int) -> float:
    """Learning rate at a step: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (section 5.3, equation 3)."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def paper_peak(d_model: int, warmup_steps: int) -> float:
    """The largest learning rate of the paper's schedule, reached at the end of warm-up."""
    return inverse_square_root(warmup_steps, d_model, warmup_steps)


def linear_decay(step: int, progress: float, peak: float, warmup_steps: int) -> float:
    """Rise linearly to the peak, and fall linearly to 0 as progress through the run goes from 0 to 1."""
    return peak * min(step / warmup_steps, 1.0) * max(0.0, 1.0 - progress)
