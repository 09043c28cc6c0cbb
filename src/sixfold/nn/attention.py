"""Scaled dot-product and multi-head attention (sections 3.2.1 and 3.2.2).

Shapes: B batch, H heads, Q query positions, K key positions, D head width (d_k or d_v).
Masks are boolean and True means "may attend".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return softmax(QKᵀ/√d_k)V and the attention weights, which sum to 1 over K (equation 1).

    A query that may attend to nothing, such as padding far from the sentence, gets 0 for both.
    """
    d_k = query.size(-1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)  # (B, H, Q, K)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)  # softmax over nothing is NaN
    return weights @ value, weights


def fast_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the same output as `attention` from torch's fused kernel, which keeps no weights."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


class MultiHeadAttention(nn.Module):
    """h heads side by side: Concat(head_1, …, head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    W^Q, W^K and W^V of all heads are the rows of one matrix, so that self-attention is one product.
    The paper's equations have no biases; `bias` adds them for models from elsewhere that do.
    `attend` is the attention function: replace it to watch the weights.
    """

    def __init__(self, d_model: int, heads: int, d_k: int, d_v: int, bias: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.sizes = [heads * d_k, heads * d_k, heads * d_v]  # rows of W^Q, W^K, W^V
        self.project = nn.Linear(d_model, sum(self.sizes), bias=bias)
        self.output = nn.Linear(heads * d_v, d_model, bias=bias)
        self.attend: Attend = fast_attention
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw each of the four matrices from Glorot's uniform distribution, as if it stood alone."""
        for matrix in (*self.project.weight.split(self.sizes), self.output.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.project, self.output):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """Let every position of `query` (B, Q, d_model) attend to `memory` (B, K, d_model)."""
        if query is memory:
            return self.combine(*self.project_all(query), mask)
        return self.combine(self.project_query(query), *self.project_memory(memory), mask)

    def with_weights(self, query: Tensor, memory: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return what `forward` returns, and the attention weights (B, H, Q, K) of every head."""
        heads, weights = attention(self.project_query(query), *self.project_memory(memory), mask)
        return self.output(heads.transpose(1, 2).flatten(2)), weights

    def project_all(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values (B, H, positions, D) of the same positions: self-attention."""
        query, key, value = self.project(x).split(self.sizes, dim=-1)
        return self.split_heads(query), self.split_heads(key), self.split_heads(value)

    def project_query(self, x: Tensor) -> Tensor:
        """Return the queries (B, H, Q, d_k)."""
        rows = slice(0, self.sizes[0])
        return self.split_heads(self.project_rows(x, rows))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys (B, H, K, d_k) and values (B, H, K, d_v)."""
        rows = slice(self.sizes[0], None)
        key, value = self.project_rows(memory, rows).split(self.sizes[1:], dim=-1)
        return self.split_heads(key), self.split_heads(value)

    def project_rows(self, x: Tensor, rows: slice) -> Tensor:
        """Apply some rows of the fused projection."""
        bias = self.project.bias
        return F.linear(x, self.project.weight[rows], bias if bias is None else bias[rows])

    def combine(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Attend in every head, concatenate the heads and apply W^O."""
        heads = self.attend(query, key, value, mask)  # (B, H, Q, d_v)
        return self.output(heads.transpose(1, 2).flatten(2))

    def split_heads(self, x: Tensor) -> Tensor:
        """Turn (B, positions, H·D) into (B, H, positions, D)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
