"""Scaled dot-product and multi-head attention (sections 3.2.1 and 3.2.2).

Shapes: B batch, H heads, Q query positions, K key positions, D head width (d_k or d_v).
Masks are boolean and True means "may attend".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.kernels import attention as kernel
from sixfold.kernels import causal_attention as causal_kernel
from sixfold.kernels.causal_attention import Heads
from sixfold.nn.config import BlockConfig
from sixfold.nn.masks import Mask, causal_mask
from sixfold.nn.positions import RotaryPositions


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask | None = None, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return softmax(QKᵀ/√d_k)V and the attention weights, which sum to 1 over K (equation 1).

    A query that may attend to nothing, such as padding far from the sentence, gets 0 for both. `scale` replaces
    1/√d_k.
    """
    d_k = query.size(-1)
    products = query @ key.transpose(-2, -1)  # (B, H, Q, K)
    scores = products / math.sqrt(d_k) if scale is None else products * scale
    mask = causal_mask(scores.size(-1), scores.device) if isinstance(mask, str) else mask
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)  # softmax over nothing is NaN
    return weights @ value, weights


def fast_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask | None = None, scale: float | None = None
) -> Tensor:
    """Return the same output as `attention` from torch's fused kernel, which keeps no weights."""
    if isinstance(mask, str):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


Watch = Callable[[Tensor], None]  # gets the attention weights (B, H, Q, K)


class MultiHeadAttention(nn.Module):
    """h heads side by side: Concat(head_1, …, head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    W^Q, W^K and W^V of all heads are the rows of one matrix, so that self-attention needs one product. The paper's
    equations have no biases; its descendants have some. If there are fewer key-value heads than query heads,
    adjacent heads share them (Ainslie et al., 2023).
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        d_k, d_v = config.head_widths
        self.heads, self.key_value_heads = config.heads, config.key_value_heads or config.heads
        self.score_scale = config.score_scale or None  # None: 1/√d_k
        self.query_divisor = config.query_divisor
        self.causal_heads = Heads(self.heads, self.key_value_heads, d_k, 1 / config.query_divisor)
        self.sizes = [self.heads * d_k, self.key_value_heads * d_k, self.key_value_heads * d_v]  # of W^Q, W^K, W^V
        self.project = nn.Linear(config.d_model, sum(self.sizes), bias=config.attention_bias)
        self.output = nn.Linear(self.heads * d_v, config.d_model, bias=config.attention_bias)
        self.rotary = RotaryPositions(d_k, config.rotary_base) if config.positions == "rotary" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise each of the four matrices separately from Glorot's uniform distribution."""
        for matrix in (*self.project.weight.split(self.sizes), self.output.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.project, self.output):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(
        self, query: Tensor, memory: Tensor, mask: Mask | None = None, watch: Watch | None = None
    ) -> Tensor:
        """Let every position of `query` (B, Q, d_model) attend to `memory` (B, K, d_model)."""
        if watch is not None:
            output, weights = self.with_weights(query, memory, mask)
            watch(weights)
            return output
        if query is memory:
            return self.output(self.attend_to_itself(query, mask))
        return self.output(self.attend(self.project_query(query), self.project_memory(memory), mask))

    def attend_to_itself(self, x: Tensor, mask: Mask | None) -> Tensor:
        """Return the outputs of all heads of self-attention side by side (B, T, H·d_v), before W^O."""
        if isinstance(mask, str) and causal_kernel.is_possible(x, self.causal_heads, self.sizes):
            turns = self.rotary.turns(0, x.size(1)) if self.rotary else None
            projected = F.linear(x, self.project.weight)
            return causal_kernel.attend(projected, self.project.bias, turns, self.causal_heads)
        return self.attend(self.project(x), None, mask)

    def with_weights(self, query: Tensor, memory: Tensor, mask: Mask | None = None) -> tuple[Tensor, Tensor]:
        """Return the output of `forward` and the attention weights (B, H, Q, K) of every head."""
        parts = self.split_heads(self.project_query(query), self.project_memory(memory))
        heads, weights = attention(*parts, mask, self.score_scale)
        return self.output(join_heads(heads)), weights

    def project_query(self, x: Tensor) -> Tensor:
        """Return the queries (B, Q, H·d_k)."""
        return self.project_rows(x, slice(0, self.sizes[0]))

    def project_memory(self, memory: Tensor) -> Tensor:
        """Return keys and values side by side (B, K, H·d_k + H·d_v)."""
        return self.project_rows(memory, slice(self.sizes[0], None))

    def project_rows(self, x: Tensor, rows: slice) -> Tensor:
        """Apply some rows of the fused projection."""
        bias = self.project.bias
        return F.linear(x, self.project.weight[rows], bias if bias is None else bias[rows])

    def attend(self, projected: Tensor, memory: Tensor | None, mask: Mask | None) -> Tensor:
        """Return the outputs of all heads side by side (B, Q, H·d_v), before W^O.

        Keys and values are in `memory`, or if it is None after the queries in `projected`.
        """
        if self.is_plain and not isinstance(mask, str) and kernel.is_possible(projected, self.heads, self.sizes):
            return kernel.attend(projected, memory, mask, self.heads, self.sizes)
        return join_heads(fast_attention(*self.split_heads(projected, memory), mask, self.score_scale))

    @property
    def is_plain(self) -> bool:
        """Whether it is the paper's attention, which the compiled kernel computes."""
        return self.score_scale is None and self.rotary is None and self.key_value_heads == self.heads

    def split_heads(self, projected: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each (B, H, positions, D)."""
        if memory is None:
            parts = projected.split(self.sizes, dim=-1)
        else:
            parts = (projected, *memory.split(self.sizes[1:], dim=-1))
        counts = (self.heads, self.key_value_heads, self.key_value_heads)
        query, key, value = (
            part.unflatten(-1, (count, -1)).transpose(1, 2) for part, count in zip(parts, counts, strict=True)
        )
        if self.rotary is not None:
            query, key = self.rotary(query), self.rotary(key)
        if self.key_value_heads < self.heads:
            group = self.heads // self.key_value_heads
            key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        return query, key, value


def join_heads(heads: Tensor) -> Tensor:
    """Turn (B, H, positions, D) into (B, positions, H·D): the concatenation of the heads."""
    return heads.transpose(1, 2).flatten(2)
