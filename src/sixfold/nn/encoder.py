"""The encoder: N layers of self-attention and feed-forward (section 3.1).

Shapes: B batch, M source positions.
"""

from __future__ import annotations

from torch import Tensor, nn

from sixfold.nn.attention import MultiHeadAttention
from sixfold.nn.feed_forward import FeedForward
from sixfold.nn.norm import Norm, final_norm, residual


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each with its residual, dropout and norm."""

    def __init__(self, attention: MultiHeadAttention, feed_forward: FeedForward, norm: Norm, dropout: float):
        super().__init__()
        d_model = feed_forward.inner.in_features
        self.attention = attention
        self.attention_residual = residual(norm, d_model, dropout)
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual(norm, d_model, dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Transform x (B, M, d_model)."""
        x = self.attention_residual(x, lambda y: self.attention(y, y, mask))
        return self.feed_forward_residual(x, self.feed_forward)


class Encoder(nn.Module):
    """The stack of layers."""

    def __init__(self, layers: list[EncoderLayer], norm: Norm, d_model: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = final_norm(norm, d_model)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Transform the embedded source (B, M, d_model) into the memory (B, M, d_model)."""
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)
