"""The weights of a layer as plain matrices compute what the layer computes, and lead back to its parameters."""

from __future__ import annotations

import math
from typing import TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sixfold.nn import BlockConfig, Layer, MultiHeadAttention, Stack, attention
from sixfold.nn.config import NormKind
from sixfold.nn.feed_forward import ACTIVATIONS
from sixfold.nn.layout import (
    AttentionWeights,
    LayerWeights,
    Linear,
    attention_weights,
    final_norm_weights,
    layer_weights,
    layers_of,
)

pytestmark = pytest.mark.usefixtures("seed")

D_MODEL, HEADS = 12, 4
Module = TypeVar("Module", bound=torch.nn.Module)
WIDTHS = [(4, 4, 4), (2, 4, 4), (4, 1, 4), (3, 5, 9)]  # d_k, d_v, and what both become


def make_attention(**choices: object) -> MultiHeadAttention:
    """Return an attention with random weights everywhere, in float64."""
    config = BlockConfig.model_validate({"d_model": D_MODEL, "heads": HEADS, **choices})
    return randomised(MultiHeadAttention(config))


def randomised(module: Module) -> Module:
    """Draw every parameter anew, so that no zero or one hides a mistake."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.double()


def apply(linear: Linear, x: Tensor) -> Tensor:
    return F.linear(x, linear.weight, linear.bias)


def attend(weights: AttentionWeights, query: Tensor, memory: Tensor, scale: float | None = None) -> Tensor:
    """Compute an attention from plain matrices, dividing the scores by what the weights say, or scaling them."""
    parts = ((weights.query, query), (weights.key, memory), (weights.value, memory))
    heads = [apply(linear, x).unflatten(-1, (weights.heads, -1)).transpose(1, 2) for linear, x in parts]
    output, _ = attention(*heads, scale=1 / weights.divisor if scale is None else scale)
    return apply(weights.output, output.transpose(1, 2).flatten(2))


def random_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 5, D_MODEL).double(), torch.randn(2, 7, D_MODEL).double()


# Attention


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("d_k", "d_v", "width"), WIDTHS)
def test_wider_heads_give_the_same_output(d_k: int, d_v: int, width: int, bias: bool) -> None:
    module, (query, memory) = make_attention(d_k=d_k, d_v=d_v, attention_bias=bias), random_inputs()
    wide = attention_weights(module).widened(width)
    assert wide.value.weight.shape == wide.query.weight.shape == (HEADS * width, D_MODEL)
    torch.testing.assert_close(attend(wide, query, memory), module(query, memory))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("d_k", "d_v", "width"), WIDTHS)
def test_divided_queries_give_the_same_output_to_an_engine_that_divides_less(
    d_k: int, d_v: int, width: int, bias: bool
) -> None:
    module, (query, memory) = make_attention(d_k=d_k, d_v=d_v, attention_bias=bias), random_inputs()
    weights, expected = attention_weights(module), module(query, memory)
    assert weights.divisor == pytest.approx(math.sqrt(d_k))
    torch.testing.assert_close(attend(weights.divided(), query, memory, scale=1.0), expected)
    theirs = weights.divided(math.sqrt(width)).widened(width)  # one that divides by the root of its own width
    torch.testing.assert_close(attend(theirs, query, memory, scale=1 / math.sqrt(width)), expected)


@pytest.mark.parametrize("score_scale", [1.0, 0.3])
def test_a_stated_scale_of_the_scores_is_in_the_divided_queries(score_scale: float) -> None:
    module, (query, memory) = make_attention(d_k=5, score_scale=score_scale), random_inputs()
    weights = attention_weights(module).divided()
    torch.testing.assert_close(attend(weights, query, memory, scale=1.0), module(query, memory))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("key_value_heads", [1, 2])
def test_heads_that_share_keys_and_values_get_a_copy_each(key_value_heads: int, bias: bool) -> None:
    choices = {"d_k": 2, "d_v": 3, "key_value_heads": key_value_heads, "attention_bias": bias}
    module, (query, memory) = make_attention(**choices), random_inputs()
    weights = attention_weights(module)
    keys, group = weights.key.weight.unflatten(0, (HEADS, -1)), HEADS // key_value_heads
    stored = module.project.weight.split(module.sizes)[1].unflatten(0, (key_value_heads, -1))
    assert all(torch.equal(keys[i], stored[i // group]) for i in range(HEADS))
    torch.testing.assert_close(attend(weights, query, memory), module(query, memory))
    torch.testing.assert_close(attend(weights.divided().widened(5), query, memory), module(query, memory))


# A whole layer


VARIANTS: dict[str, dict[str, object]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "every bias": {"attention_bias": True},
    "no bias": {"feed_forward_bias": False},
    "rms norm, gated silu, shared keys": {
        "norm_kind": "rms",
        "gated": True,
        "activation": "silu",
        "key_value_heads": 2,
    },
    "gelu and another epsilon": {"activation": "gelu", "norm_epsilon": 0.1},
}


def compute(weights: LayerWeights, config: BlockConfig, x: Tensor, memory: Tensor) -> Tensor:
    """Compute a layer from its plain matrices alone."""

    def feed_forward(y: Tensor) -> Tensor:
        network, hidden = (
            weights.feed_forward,
            ACTIVATIONS[config.activation](apply(weights.feed_forward.inner, y)),
        )
        return apply(network.outer, hidden if network.gate is None else hidden * apply(network.gate, y))

    cross, cross_norm = weights.cross_attention, weights.cross_attention_norm
    steps = [(weights.self_attention_norm, lambda y: attend(weights.self_attention, y, y))]
    if cross is not None and cross_norm is not None:
        steps.append((cross_norm, lambda y: attend(cross, y, memory)))
    for norm, sublayer in [*steps, (weights.feed_forward_norm, feed_forward)]:
        x = x + sublayer(norm(x)) if config.norm == "pre" else norm(x + sublayer(x))
    return x


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("has_cross_attention", [False, True])
def test_the_matrices_of_a_layer_compute_what_the_layer_computes(variant: str, has_cross_attention: bool) -> None:
    shape = {"d_model": D_MODEL, "d_ff": 20, "heads": HEADS, "d_v": 5, "dropout": 0.0}
    config = BlockConfig.model_validate({**shape, **VARIANTS[variant]})
    layer, (x, memory) = randomised(Layer(config, has_cross_attention)), random_inputs()
    expected = layer(x, None, memory)
    torch.testing.assert_close(compute(layer_weights(layer), config, x, memory), expected)
    assert (layer_weights(layer).cross_attention is not None) is has_cross_attention


def test_the_layers_of_a_stack_come_first_layer_first() -> None:
    stack = Stack(BlockConfig(d_model=D_MODEL, heads=HEADS, d_ff=8), 3)
    for weights, layer in zip(layers_of(stack), stack.layers, strict=True):
        assert torch.equal(weights.feed_forward.inner.weight, layer.feed_forward.inner.weight)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_only_a_pre_norm_stack_has_a_final_norm_to_lay_out(kind: NormKind) -> None:
    shape = {"d_model": D_MODEL, "heads": HEADS, "norm_kind": kind, "norm_epsilon": 0.01}
    stack = randomised(Stack(BlockConfig.model_validate({**shape, "norm": "pre"}), 1))
    norm, x = final_norm_weights(stack), torch.randn(3, D_MODEL).double()
    assert norm is not None
    torch.testing.assert_close(norm(x), stack.norm(x))
    assert final_norm_weights(Stack(BlockConfig.model_validate(shape), 1)) is None


def test_what_an_initialisation_writes_reaches_the_parameters() -> None:
    layer = Layer(BlockConfig(d_model=D_MODEL, heads=HEADS, d_k=2, d_v=5, attention_bias=True), True)
    weights = layer_weights(layer)
    assert weights.cross_attention is not None
    for number, block in enumerate((weights.self_attention, weights.cross_attention)):
        for place, linear in enumerate((block.query, block.key, block.value, block.output)):
            linear.weight.fill_(10 * number + place)
            assert linear.bias is not None
            linear.bias.fill_(10 * number + place)
    weights.feed_forward.inner.weight.fill_(7)
    weights.feed_forward_norm.weight.fill_(8)
    for number, block in enumerate((layer.self_attention, layer.cross_attention)):
        assert block is not None
        for place, rows in enumerate((*block.project.weight.split(block.sizes), block.output.weight)):
            assert rows.eq(10 * number + place).all()
        assert block.project.bias[[0, 8, 16]].tolist() == [10 * number + i for i in range(3)]
    assert layer.feed_forward.inner.weight.eq(7).all()
    assert layer.feed_forward_norm.weight.eq(8).all()


def test_no_gradient_is_recorded_by_laying_out() -> None:
    layer = Layer(BlockConfig(d_model=D_MODEL, heads=HEADS, gated=True, key_value_heads=2), True)
    weights = layer_weights(layer)
    assert weights.feed_forward.gate is not None
    linears = (weights.self_attention.query, weights.self_attention.key, weights.feed_forward.gate)
    assert not any(linear.weight.requires_grad for linear in linears)
    assert not weights.feed_forward_norm.weight.requires_grad
