"""Residual connection, dropout and layer normalisation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from sixfold.nn import Dropout, PostNorm, PreNorm
from sixfold.nn.norm import final_norm, residual

pytestmark = pytest.mark.usefixtures("seed")


def plain_layer_norm(row: list[float]) -> list[float]:
    """Normalise one vector with Python's numbers; the gain is one and the bias zero."""
    mean = math.fsum(row) / len(row)
    variance = math.fsum((number - mean) ** 2 for number in row) / len(row)
    return [(number - mean) / math.sqrt(variance + 1e-5) for number in row]


def sublayer(x: Tensor) -> Tensor:
    """Stand for attention or feed-forward."""
    return x.sin() * 3


def test_post_norm_adds_then_normalises() -> None:
    x = torch.randn(6, dtype=torch.float64)
    expected = plain_layer_norm((x + sublayer(x)).tolist())
    assert PostNorm(6, dropout=0.0).double()(x, sublayer).tolist() == pytest.approx(expected, abs=1e-12)


def test_pre_norm_normalises_then_adds() -> None:
    x = torch.randn(6, dtype=torch.float64)
    normed = torch.tensor(plain_layer_norm(x.tolist()), dtype=torch.float64)
    expected = (x + sublayer(normed)).tolist()
    assert PreNorm(6, dropout=0.0).double()(x, sublayer).tolist() == pytest.approx(expected, abs=1e-12)


def test_dropout_falls_on_the_output_of_the_sublayer_and_never_on_the_residual() -> None:
    wrapper = PreNorm(50, dropout=0.75)
    x = torch.randn(400, 50)
    added = wrapper(x, torch.ones_like) - x
    dropped = added.abs() < 1e-5
    torch.testing.assert_close(added[~dropped], torch.full_like(added[~dropped], 4.0))  # 1 / (1 - 0.75)
    assert dropped.float().mean().item() == pytest.approx(0.75, abs=0.02)


def test_dropout_comes_before_the_sum_is_normalised() -> None:
    wrapper, x = PostNorm(50, dropout=0.5), torch.randn(20, 50)
    torch.manual_seed(1)
    output = wrapper(x, torch.ones_like)
    torch.manual_seed(1)
    dropped = Dropout(0.5)(torch.ones_like(x))
    torch.testing.assert_close(output, nn.functional.layer_norm(x + dropped, (50,)))


def test_without_training_nothing_is_dropped() -> None:
    for wrapper in (PostNorm(8, dropout=0.5).eval(), PreNorm(8, dropout=0.5).eval()):
        x = torch.randn(5, 8)
        assert torch.equal(wrapper(x, sublayer), wrapper(x, sublayer))


def test_only_pre_norm_needs_a_norm_after_the_last_layer() -> None:
    assert isinstance(final_norm("pre", 8), nn.LayerNorm)
    assert isinstance(final_norm("post", 8), nn.Identity)


def test_the_wrapper_is_the_one_asked_for() -> None:
    assert isinstance(residual("post", 8, 0.1), PostNorm)
    assert isinstance(residual("pre", 8, 0.1), PreNorm)


def test_a_fresh_norm_has_gain_one_and_bias_zero() -> None:
    norm = PostNorm(8, dropout=0.1).norm
    assert norm.weight.eq(1).all()
    assert norm.bias.eq(0).all()
    assert norm.eps == 1e-5
