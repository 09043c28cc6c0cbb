"""Normalisation, and where it stands: residual connection, dropout and norm."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from sixfold.nn import BlockConfig, Dropout, Layer
from sixfold.nn.config import NormKind, NormPlace
from sixfold.nn.norms import final_norm, make_norm

pytestmark = pytest.mark.usefixtures("seed")

both_kinds = pytest.mark.parametrize("kind", ["layer", "rms"])


def block(d_model: int, norm: NormPlace = "post", kind: NormKind = "layer", dropout: float = 0.0) -> BlockConfig:
    """Return a definition of layers in which only the norm matters."""
    return BlockConfig(d_model=d_model, d_ff=1, heads=1, norm=norm, norm_kind=kind, dropout=dropout)


def residual(layer: Layer, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    """Wrap a sub-layer as a layer wraps its own."""
    return layer.residual(x, layer.feed_forward_norm, sublayer)


def plain_rms_norm(row: list[float], epsilon: float = 1e-5) -> list[float]:
    """Divide one vector by its root mean square with Python's numbers; the gain is one."""
    mean_square = math.fsum(number**2 for number in row) / len(row)
    return [number / math.sqrt(mean_square + epsilon) for number in row]


def plain_layer_norm(row: list[float], epsilon: float = 1e-5) -> list[float]:
    """Normalise one vector with Python's numbers; the gain is one and the bias zero."""
    mean = math.fsum(row) / len(row)
    variance = math.fsum((number - mean) ** 2 for number in row) / len(row)
    return [(number - mean) / math.sqrt(variance + epsilon) for number in row]


PLAIN = {"layer": plain_layer_norm, "rms": plain_rms_norm}


def sublayer(x: Tensor) -> Tensor:
    """Stand for attention or feed-forward."""
    return x.sin() * 3


@both_kinds
def test_post_norm_adds_then_normalises(kind: NormKind) -> None:
    layer, x = Layer(block(6, "post", kind)).double(), torch.randn(6, dtype=torch.float64)
    expected = PLAIN[kind]((x + sublayer(x)).tolist())
    assert residual(layer, x, sublayer).tolist() == pytest.approx(expected, abs=1e-12)


@both_kinds
def test_pre_norm_normalises_then_adds(kind: NormKind) -> None:
    layer, x = Layer(block(6, "pre", kind)).double(), torch.randn(6, dtype=torch.float64)
    normed = torch.tensor(PLAIN[kind](x.tolist()), dtype=torch.float64)
    expected = (x + sublayer(normed)).tolist()
    assert residual(layer, x, sublayer).tolist() == pytest.approx(expected, abs=1e-12)


@both_kinds
@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 0.5])
def test_a_norm_has_the_stated_epsilon(kind: NormKind, epsilon: float) -> None:
    config = BlockConfig(d_model=6, heads=1, norm_kind=kind, norm_epsilon=epsilon)
    x = torch.randn(6, dtype=torch.float64)
    assert make_norm(config).double()(x).tolist() == pytest.approx(PLAIN[kind](x.tolist(), epsilon), abs=1e-12)


def test_dropout_falls_on_the_output_of_the_sublayer_and_never_on_the_residual() -> None:
    layer, x = Layer(block(50, "pre", dropout=0.75)), torch.randn(400, 50)
    added = residual(layer, x, torch.ones_like) - x
    dropped = added.abs() < 1e-5
    torch.testing.assert_close(added[~dropped], torch.full_like(added[~dropped], 4.0))  # 1 / (1 - 0.75)
    assert dropped.float().mean().item() == pytest.approx(0.75, abs=0.02)


def test_dropout_comes_before_the_sum_is_normalised() -> None:
    layer, x = Layer(block(50, "post", dropout=0.5)), torch.randn(20, 50)
    torch.manual_seed(1)
    output = residual(layer, x, torch.ones_like)
    torch.manual_seed(1)
    dropped = Dropout(0.5)(torch.ones_like(x))
    torch.testing.assert_close(output, nn.functional.layer_norm(x + dropped, (50,)))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_without_training_nothing_is_dropped(norm: NormPlace) -> None:
    layer, x = Layer(block(8, norm, dropout=0.5)), torch.randn(5, 8)
    assert not torch.equal(residual(layer, x, sublayer), residual(layer, x, sublayer))
    layer.eval()
    assert torch.equal(residual(layer, x, sublayer), residual(layer, x, sublayer))


def test_only_pre_norm_needs_a_norm_after_the_last_layer() -> None:
    assert isinstance(final_norm(block(8, "pre")), nn.LayerNorm)
    assert isinstance(final_norm(block(8, "pre", "rms")), nn.RMSNorm)
    assert isinstance(final_norm(block(8, "post")), nn.Identity)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_norm_stands_where_it_is_asked_for(norm: NormPlace) -> None:
    layer, x = Layer(block(8, norm)), torch.randn(5, 8)
    output = residual(layer, x, torch.zeros_like)  # a sub-layer that adds nothing
    assert torch.equal(output, layer.feed_forward_norm(x) if norm == "post" else x)


def test_a_fresh_norm_has_gain_one_and_bias_zero() -> None:
    norm = make_norm(block(8))
    assert norm.weight.eq(1).all()
    assert norm.bias.eq(0).all()
    assert norm.eps == 1e-5


def test_a_fresh_root_mean_square_norm_has_gain_one_and_no_bias() -> None:
    norm = make_norm(block(8, kind="rms"))
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    assert norm.weight.eq(1).all()
    assert norm.eps == 1e-5
