"""Learning rates, against arithmetic of their own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.training.schedule import inverse_square_root, linear_decay, paper_peak


@pytest.mark.parametrize(
    ("step", "d_model", "warmup"),
    [(1, 512, 4000), (2000, 512, 4000), (4000, 512, 4000), (4001, 512, 4000), (100_000, 512, 4000), (7, 64, 3)],
)
def test_the_paper_schedule_is_equation_3(step: int, d_model: int, warmup: int) -> None:
    rising = step / (math.sqrt(d_model) * warmup * math.sqrt(warmup))
    falling = 1 / math.sqrt(d_model * step)
    expected = rising if step <= warmup else falling
    assert inverse_square_root(step, d_model, warmup) == pytest.approx(expected, rel=1e-12)


def test_the_base_model_peaks_where_the_paper_does() -> None:
    assert paper_peak(512, 4000) == pytest.approx(6.987712e-4, rel=1e-6)


@settings(max_examples=50)
@given(st.integers(1, 10_000), st.integers(2, 2048), st.integers(1, 5000))
def test_no_step_is_above_the_peak_at_the_end_of_warm_up(step: int, d_model: int, warmup: int) -> None:
    assert 0 < inverse_square_root(step, d_model, warmup) <= paper_peak(d_model, warmup)
    assert inverse_square_root(warmup, d_model, warmup) == paper_peak(d_model, warmup)


def test_linear_decay_rises_to_the_peak_and_falls_to_nothing() -> None:
    assert linear_decay(5, 0.0, 1e-3, 10) == pytest.approx(5e-4)
    assert linear_decay(10, 0.0, 1e-3, 10) == 1e-3
    assert linear_decay(500, 0.5, 1e-3, 10) == 5e-4
    assert linear_decay(1000, 1.0, 1e-3, 10) == 0.0


def test_linear_decay_never_falls_below_nothing_when_a_run_takes_longer_than_planned() -> None:
    assert linear_decay(1000, 1.2, 1e-3, 10) == 0.0
