"""The decoder: N layers of masked self-attention, attention to the memory, and feed-forward (section 3.1).

Shapes: B batch, M source positions, T target positions.
"""

from __future__ import annotations

from torch import Tensor, nn

from sixfold.nn.attention import MultiHeadAttention
from sixfold.nn.feed_forward import FeedForward
from sixfold.nn.norm import Norm, final_norm, residual


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, then feed-forward."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        norm: Norm,
        dropout: float,
    ) -> None:
        super().__init__()
        d_model = feed_forward.inner.in_features
        self.self_attention = self_attention
        self.self_attention_residual = residual(norm, d_model, dropout)
        self.cross_attention = cross_attention
        self.cross_attention_residual = residual(norm, d_model, dropout)
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual(norm, d_model, dropout)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        """Transform all target positions x (B, T, d_model) at once, as in training."""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, mask))
        x = self.cross_attention_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)


class Decoder(nn.Module):
    """The stack of layers."""

    def __init__(self, layers: list[DecoderLayer], norm: Norm, d_model: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = final_norm(norm, d_model)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        """Transform the embedded target (B, T, d_model), seeing the memory (B, M, d_model)."""
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)
