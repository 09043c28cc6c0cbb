"""The weights of a layer as plain matrices: the one place that knows how a `Layer` stores them.

Engines, exporters and initialisation read and write a model through this, so that none of them depends on its
modules. All tensors are views of the parameters or computed from them without a gradient.

Shapes: H heads, D head width (d_k or d_v, or both padded to the same), d = d_model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.nn.attention import MultiHeadAttention
from sixfold.nn.feed_forward import FeedForward
from sixfold.nn.layer import Layer, Stack
from sixfold.nn.norms import Norm


@dataclass(frozen=True)
class Linear:
    """A linear map: weight (out, in), and the bias (out,) if it has one."""

    weight: Tensor
    bias: Tensor | None = None

    def __truediv__(self, divisor: float) -> Linear:
        return Linear(self.weight / divisor, None if self.bias is None else self.bias / divisor)


@dataclass(frozen=True)
class NormWeights:
    """A norm; a root-mean-square norm has no bias."""

    weight: Tensor
    bias: Tensor | None
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        if self.bias is None:
            return torch.rms_norm(x, self.weight.shape, self.weight, self.epsilon)
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True)
class AttentionWeights:
    """W^Q, W^K, W^V (H·D, d) and W^O (d, H·D) of all heads, and the divisor of the scores."""

    heads: int
    query: Linear
    key: Linear
    value: Linear
    output: Linear
    divisor: float
    group: int = 1  # number of adjacent heads that have copies of the same keys and values

    @property
    def shared(self) -> tuple[Linear, Linear]:
        """W^K and W^V without copies of heads, (H/group·D, d)."""
        return first_of_each(self.key, self.heads, self.group), first_of_each(self.value, self.heads, self.group)

    def widened(self, width: int) -> AttentionWeights:
        """Return the same attention with heads padded with zeros to this width, which changes no product."""
        return replace(
            self,
            query=self.widen(self.query, width),
            key=self.widen(self.key, width),
            value=self.widen(self.value, width),
            output=Linear(widen_heads(self.output.weight.t(), self.heads, width).t(), self.output.bias),
        )

    def widen(self, linear: Linear, width: int) -> Linear:
        """Widen the outputs of a projection."""
        bias = None if linear.bias is None else widen_heads(linear.bias, self.heads, width)
        return Linear(widen_heads(linear.weight, self.heads, width), bias)

    def divided(self, by: float = 1.0) -> AttentionWeights:
        """Return the same attention with the divisor in the queries, except `by`, which the engine applies."""
        return replace(self, query=self.query / (self.divisor / by), divisor=by)


@dataclass(frozen=True)
class FeedForwardWeights:
    """The matrices of the feed-forward network; only a gated one has a gate."""

    inner: Linear
    gate: Linear | None
    outer: Linear


@dataclass(frozen=True)
class LayerWeights:
    """All weights of a layer; a layer without a memory has no cross-attention."""

    self_attention: AttentionWeights
    self_attention_norm: NormWeights
    cross_attention: AttentionWeights | None
    cross_attention_norm: NormWeights | None
    feed_forward: FeedForwardWeights
    feed_forward_norm: NormWeights


def layers_of(stack: Stack) -> Iterator[LayerWeights]:
    """Yield the weights of each layer of a stack, first layer first."""
    for layer in stack.layers:
        assert isinstance(layer, Layer)
        yield layer_weights(layer)


def layer_weights(layer: Layer) -> LayerWeights:
    """Return the weights of a layer."""
    cross, cross_norm = layer.cross_attention, layer.cross_attention_norm
    return LayerWeights(
        self_attention=attention_weights(layer.self_attention),
        self_attention_norm=norm_weights(layer.self_attention_norm),
        cross_attention=None if cross is None else attention_weights(cross),
        cross_attention_norm=None if cross_norm is None else norm_weights(cross_norm),
        feed_forward=feed_forward_weights(layer.feed_forward),
        feed_forward_norm=norm_weights(layer.feed_forward_norm),
    )


def attention_weights(attention: MultiHeadAttention) -> AttentionWeights:
    """Return the weights of an attention; heads that share keys and values get a copy each."""
    weights = attention.project.weight.detach().split(attention.sizes)
    fused = attention.project.bias
    biases = [None] * 3 if fused is None else fused.detach().split(attention.sizes)
    query, key, value = map(Linear, weights, biases)
    group = attention.heads // attention.key_value_heads
    if group > 1:
        key, value = (repeated(each, attention.key_value_heads, group) for each in (key, value))
    return AttentionWeights(
        attention.heads, query, key, value, linear_weights(attention.output), attention.query_divisor, group
    )


def repeated(linear: Linear, heads: int, group: int) -> Linear:
    """Return a projection with each head repeated `group` times."""

    def repeat(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (heads, -1)).repeat_interleave(group, dim=0).flatten(0, 1)

    return Linear(repeat(linear.weight), None if linear.bias is None else repeat(linear.bias))


def first_of_each(linear: Linear, heads: int, group: int) -> Linear:
    """Return a projection with the first head of each `group`."""

    def select(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (heads, -1))[::group].flatten(0, 1)

    return Linear(select(linear.weight), None if linear.bias is None else select(linear.bias))


def widen_heads(rows: Tensor, heads: int, width: int) -> Tensor:
    """Pad the rows (H·D, …) of each head with zeros to (H·width, …)."""
    by_head = rows.unflatten(0, (heads, -1))
    missing = width - by_head.size(1)
    return F.pad(by_head, [0, 0] * (by_head.dim() - 2) + [0, missing]).flatten(0, 1)


def feed_forward_weights(network: FeedForward) -> FeedForwardWeights:
    """Return the weights of a feed-forward network."""
    gate = None if network.gate is None else linear_weights(network.gate)
    return FeedForwardWeights(linear_weights(network.inner), gate, linear_weights(network.outer))


def linear_weights(linear: nn.Linear) -> Linear:
    """Return the weights of a linear module."""
    return Linear(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())


def norm_weights(norm: Norm) -> NormWeights:
    """Return the weights of a norm."""
    bias = norm.bias.detach() if isinstance(norm, nn.LayerNorm) else None
    assert norm.weight is not None
    return NormWeights(norm.weight.detach(), bias, float(norm.eps or 0.0))


def final_norm_weights(stack: Stack) -> NormWeights | None:
    """Return the weights of the final norm of a pre-norm stack."""
    return None if isinstance(stack.norm, nn.Identity) else norm_weights(stack.norm)  # type: ignore[arg-type]
