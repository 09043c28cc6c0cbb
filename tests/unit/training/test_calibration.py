"""How fast a core trains, measured in a moment and without a trace."""

from __future__ import annotations

import torch

from sixfold.training.calibration import calibrated_speed, measure_core_speed


def test_only_a_time_budget_on_a_cpu_is_worth_measuring() -> None:
    assert calibrated_speed({}, "cpu") == 1.0
    assert calibrated_speed({"train": {"steps": 100}}, "cpu") == 1.0
    assert calibrated_speed({"train": {"minutes": 5}}, "cuda") == 1.0


def test_measuring_changes_neither_random_numbers_nor_threads(seed: int) -> None:
    torch.manual_seed(seed)
    expected = torch.rand(3)
    torch.manual_seed(seed)
    torch.set_num_threads(2)
    assert calibrated_speed({"train": {"minutes": 5}}, "cpu") > 0
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == 2


def test_two_measurements_agree(seed: int) -> None:  # noqa: ARG001
    # A neighbour that comes between two of them may slow one down.
    assert any(0.5 < measure_core_speed() / measure_core_speed() < 2 for _ in range(4))
