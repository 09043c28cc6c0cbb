"""The position-wise feed-forward network."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch

from sixfold.nn import BlockConfig, FeedForward
from sixfold.nn.config import Activation

pytestmark = pytest.mark.usefixtures("seed")


def dot(left: list[float], right: list[float]) -> float:
    """Return the sum of the products."""
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def test_it_is_equation_2_written_with_plain_numbers() -> None:
    module = FeedForward(BlockConfig(d_model=3, d_ff=5, heads=1)).double()
    for linear in (module.inner, module.outer):
        torch.nn.init.normal_(linear.bias)
    x = torch.randn(3, dtype=torch.float64)
    weight_1, bias_1 = module.inner.weight.tolist(), module.inner.bias.tolist()
    weight_2, bias_2 = module.outer.weight.tolist(), module.outer.bias.tolist()
    inner = [max(0.0, dot(x.tolist(), weight_1[j]) + bias_1[j]) for j in range(5)]
    expected = [dot(inner, weight_2[j]) + bias_2[j] for j in range(3)]
    assert module(x).tolist() == pytest.approx(expected, abs=1e-12)


def plain_activation(name: Activation, x: float) -> float:
    """Return an activation as its paper writes it."""
    normal = (1 + math.erf(x / math.sqrt(2))) / 2  # Φ(x)
    tanh = math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    formulas: dict[Activation, float] = {
        "relu": max(0.0, x),
        "gelu": x * normal,
        "gelu_tanh": x * (1 + tanh) / 2,
        "quick_gelu": x / (1 + math.exp(-1.702 * x)),
        "silu": x / (1 + math.exp(-x)),
    }
    return formulas[name]


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", get_args(Activation))
def test_every_variant_is_its_formula_written_with_plain_numbers(
    activation: Activation, bias: bool, gated: bool
) -> None:
    shape = {"d_model": 3, "d_ff": 5, "heads": 1, "feed_forward_bias": bias}
    module = FeedForward(BlockConfig.model_validate({**shape, "activation": activation, "gated": gated})).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(3, dtype=torch.float64)
    inner = [plain_activation(activation, number) for number in plain_linear(module.inner, x.tolist())]
    if module.gate is not None:
        gate = plain_linear(module.gate, x.tolist())
        inner = [number * factor for number, factor in zip(inner, gate, strict=True)]
    assert module(x).tolist() == pytest.approx(plain_linear(module.outer, inner), abs=1e-12)
    assert (module.gate is not None) is gated
    assert sum(name.endswith("bias") for name, _ in module.named_parameters()) == bias * (2 + gated)


def plain_linear(linear: torch.nn.Linear, x: list[float]) -> list[float]:
    """Return a linear map of one vector with Python's numbers."""
    biases = [0.0] * linear.out_features if linear.bias is None else linear.bias.tolist()
    return [dot(row, x) + bias for row, bias in zip(linear.weight.tolist(), biases, strict=True)]


def test_a_position_cannot_change_another() -> None:
    module = FeedForward(BlockConfig(d_model=8, d_ff=16, heads=1))
    x = torch.randn(2, 5, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(module(x)[:, 3].sum(), x)
    assert gradient[:, 3].ne(0).any()
    assert gradient[:, [0, 1, 2, 4]].eq(0).all()


def test_equal_vectors_at_different_positions_give_equal_outputs() -> None:
    output = FeedForward(BlockConfig(d_model=8, d_ff=16, heads=1))(torch.randn(1, 1, 8).expand(2, 5, 8))
    torch.testing.assert_close(output, output[:1, :1].expand(2, 5, 8))


def test_the_matrices_start_as_glorot_draws_them_and_the_biases_at_zero() -> None:
    module = FeedForward(BlockConfig(d_model=128, d_ff=512, heads=1))
    bound = math.sqrt(6 / (128 + 512))
    for linear in (module.inner, module.outer):
        assert 0.99 * bound < linear.weight.abs().max() <= bound
        assert linear.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert linear.bias.eq(0).all()
