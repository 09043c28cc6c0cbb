"""The position-wise feed-forward network."""

from __future__ import annotations

import math

import pytest
import torch

from sixfold.nn import FeedForward

pytestmark = pytest.mark.usefixtures("seed")


def dot(left: list[float], right: list[float]) -> float:
    """Return the sum of the products."""
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def test_it_is_equation_2_written_with_plain_numbers() -> None:
    module = FeedForward(d_model=3, d_ff=5).double()
    for linear in (module.inner, module.outer):
        torch.nn.init.normal_(linear.bias)
    x = torch.randn(3, dtype=torch.float64)
    weight_1, bias_1 = module.inner.weight.tolist(), module.inner.bias.tolist()
    weight_2, bias_2 = module.outer.weight.tolist(), module.outer.bias.tolist()
    inner = [max(0.0, dot(x.tolist(), weight_1[j]) + bias_1[j]) for j in range(5)]
    expected = [dot(inner, weight_2[j]) + bias_2[j] for j in range(3)]
    assert module(x).tolist() == pytest.approx(expected, abs=1e-12)


def test_a_position_cannot_change_another() -> None:
    module = FeedForward(d_model=8, d_ff=16)
    x = torch.randn(2, 5, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(module(x)[:, 3].sum(), x)
    assert gradient[:, 3].ne(0).any()
    assert gradient[:, [0, 1, 2, 4]].eq(0).all()


def test_equal_vectors_at_different_positions_give_equal_outputs() -> None:
    output = FeedForward(d_model=8, d_ff=16)(torch.randn(1, 1, 8).expand(2, 5, 8))
    torch.testing.assert_close(output, output[:1, :1].expand(2, 5, 8))


def test_the_matrices_start_as_glorot_draws_them_and_the_biases_at_zero() -> None:
    module = FeedForward(d_model=128, d_ff=512)
    bound = math.sqrt(6 / (128 + 512))
    for linear in (module.inner, module.outer):
        assert 0.99 * bound < linear.weight.abs().max() <= bound
        assert linear.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert linear.bias.eq(0).all()
