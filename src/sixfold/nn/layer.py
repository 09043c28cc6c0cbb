"""The layer of all models, and the stack of layers that is an encoder or a decoder (sections 3.1 and 5.4).

Shapes: B batch, T positions, M positions of the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import Tensor, nn

from sixfold.nn.attention import MultiHeadAttention
from sixfold.nn.config import BlockConfig
from sixfold.nn.dropout import Dropout
from sixfold.nn.feed_forward import FeedForward
from sixfold.nn.masks import Mask
from sixfold.nn.norms import final_norm, make_norm

Sublayer = Callable[[Tensor], Tensor]
WatchLayer = Callable[[Literal["self", "cross"], Tensor], None]  # gets the kind of attention and its weights


class Layer(nn.Module):
    """Self-attention, cross-attention to a memory if there is one, then feed-forward."""

    def __init__(self, config: BlockConfig, has_cross_attention: bool = False) -> None:
        super().__init__()
        feed_forward = FeedForward(
            config
        )  # initialised first, because a seed stands for a fixed order of initialisation
        self.self_attention = MultiHeadAttention(config)
        self.self_attention_norm = make_norm(config)
        self.cross_attention = MultiHeadAttention(config) if has_cross_attention else None
        self.cross_attention_norm = make_norm(config) if has_cross_attention else None
        self.feed_forward = feed_forward
        self.feed_forward_norm = make_norm(config)
        self.dropout = Dropout(config.dropout)
        self.is_pre_norm = config.norm == "pre"

    def forward(
        self,
        x: Tensor,
        mask: Mask | None = None,
        memory: Tensor | None = None,
        memory_mask: Mask | None = None,
        watch: WatchLayer | None = None,
    ) -> Tensor:
        """Transform all positions x (B, T, d_model) at once; `watch` gets the attention weights."""
        watch_self, watch_cross = (partial(watch, "self"), partial(watch, "cross")) if watch else (None, None)
        x = self.residual(x, self.self_attention_norm, lambda y: self.self_attention(y, y, mask, watch_self))
        if self.cross_attention is not None and self.cross_attention_norm is not None:
            attend = self.cross_attention
            x = self.residual(x, self.cross_attention_norm, lambda y: attend(y, memory, memory_mask, watch_cross))
        return self.residual(x, self.feed_forward_norm, self.feed_forward)

    def residual(self, x: Tensor, norm: nn.Module, sublayer: Sublayer) -> Tensor:
        """Return LayerNorm(x + Dropout(Sublayer(x))), or with pre-norm x + Dropout(Sublayer(LayerNorm(x)))."""
        if self.is_pre_norm:
            return self.dropout.add(x, sublayer(norm(x)))
        return norm(self.dropout.add(x, sublayer(x)))


class Stack(nn.Module):
    """N layers, and the final norm of a pre-norm stack."""

    def __init__(self, config: BlockConfig, num_layers: int, has_cross_attention: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(config, has_cross_attention) for _ in range(num_layers)])
        self.norm = final_norm(config)

    def forward(
        self,
        x: Tensor,
        mask: Mask | None = None,
        memory: Tensor | None = None,
        memory_mask: Mask | None = None,
        watch: WatchLayer | None = None,
    ) -> Tensor:
        """Transform x (B, T, d_model), with a memory (B, M, d_model) if the layers have cross-attention."""
        for layer in self.layers:
            x = layer(x, mask, memory, memory_mask, watch)
        return self.norm(x)
