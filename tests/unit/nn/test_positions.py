"""Sinusoidal and learned positions."""

from __future__ import annotations

import math

import pytest
import torch

from sixfold.errors import RequestError
from sixfold.nn import LearnedPositions, SinusoidalPositions, sinusoids


@pytest.mark.parametrize("d_model", [2, 6, 64, 512])
def test_the_sinusoids_are_the_paper_formula_element_by_element(d_model: int) -> None:
    table = sinusoids(40, d_model)
    for position in range(40):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-7)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


def test_the_phase_is_right_far_along() -> None:
    table = sinusoids(65536, 8)
    for i in range(4):
        angle = 65535 / 10000 ** (2 * i / 8)
        assert table[65535, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-7)
        assert table[65535, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


@pytest.mark.parametrize("offset", [1, 7, 100])
def test_the_encoding_some_steps_later_is_a_linear_function_of_the_encoding(offset: int) -> None:
    d_model = 32
    step = torch.zeros(d_model, d_model)  # depends on the offset, never on the position
    for i in range(0, d_model, 2):
        angle = offset / 10000 ** (i / d_model)
        step[i : i + 2, i : i + 2] = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        )
    table = sinusoids(200 + offset, d_model)
    torch.testing.assert_close(table[:200] @ step.T, table[offset:], rtol=0, atol=1e-6)


def test_the_sinusoids_of_a_later_start_are_those_of_the_whole() -> None:
    positions = SinusoidalPositions(16)
    assert torch.equal(positions(5, 3), positions(0, 20)[5:8])


def test_the_table_grows_for_a_sentence_longer_than_any_before() -> None:
    positions = SinusoidalPositions(16, length=4)
    assert torch.equal(positions(0, 11), sinusoids(11, 16))
    assert torch.equal(positions(3000, 1), sinusoids(3001, 16)[3000:])


def test_the_table_keeps_its_type_when_it_grows() -> None:
    positions = SinusoidalPositions(16, length=4).double()
    assert positions(0, 99).dtype == torch.float64


def test_the_sinusoids_are_neither_trained_nor_stored() -> None:
    positions = SinusoidalPositions(16)
    assert list(positions.parameters()) == []
    assert positions.state_dict() == {}


def test_every_learned_position_is_a_parameter_of_its_own() -> None:
    positions = LearnedPositions(4, max_positions=6)
    positions(2, 3).sum().backward()
    assert positions.table.grad is not None
    assert positions.table.grad[:, 0].tolist() == [0, 0, 1, 1, 1, 0]


def test_learned_positions_serve_up_to_the_last_and_refuse_to_go_past_it() -> None:
    positions = LearnedPositions(4, max_positions=6)
    assert torch.equal(positions(4, 2), positions.table[4:6])
    with pytest.raises(RequestError, match="position 6 but only 6 were learned"):
        positions(4, 3)


@pytest.mark.usefixtures("seed")
def test_learned_positions_start_with_a_spread_of_one_over_root_d_model() -> None:
    table = LearnedPositions(64, max_positions=1000).table
    assert table.std().item() == pytest.approx(64**-0.5, rel=0.03)
    assert table.mean().item() == pytest.approx(0, abs=0.005)
