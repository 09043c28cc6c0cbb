"""The decoder: N layers of masked self-attention, attention to the memory, and feed-forward (section 3.1).

Shapes: B batch, M source positions, T target positions; for cached steps S sentences with K
hypotheses each, R = S·K rows.
"""

from __future__ import annotations

from torch import Tensor, nn

from sixfold.nn.attention import MultiHeadAttention
from sixfold.nn.cache import DecoderCache, LayerCache
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

    def step(self, x: Tensor, cache: LayerCache, mask: Tensor | None, memory_mask: Tensor) -> Tensor:
        """Transform the newest position x (R, 1, d_model), with everything before it in the cache."""
        x = self.self_attention_residual(x, lambda y: self.attend_to_past(y, cache, mask))
        x = self.cross_attention_residual(x, lambda y: self.attend_to_memory(y, cache, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def attend_to_past(self, x: Tensor, cache: LayerCache, mask: Tensor | None) -> Tensor:
        """Self-attention of one new position to itself and the positions before it."""
        query, key, value = self.self_attention.project_all(x)
        key, value = cache.append(key, value)
        return self.self_attention.combine(query, key, value, mask)

    def attend_to_memory(self, x: Tensor, cache: LayerCache, memory_mask: Tensor) -> Tensor:
        """Attention to the source. The K hypotheses of a sentence stand as K query positions over the
        one memory of that sentence, which is therefore never copied.
        """
        sentences = cache.memory_key.size(0)
        hypotheses = x.view(sentences, -1, x.size(-1))  # (S, K, d_model)
        query = self.cross_attention.project_query(hypotheses)
        attended = self.cross_attention.combine(query, cache.memory_key, cache.memory_value, memory_mask)
        return attended.view_as(x)

    def start_cache(self, memory: Tensor, rows: int) -> LayerCache:
        """Project the memory (S, M, d_model) once, for all steps to come."""
        key, value = self.cross_attention.project_memory(memory)
        attention = self.self_attention
        d_k, d_v = attention.sizes[1] // attention.heads, attention.sizes[2] // attention.heads
        return LayerCache(
            memory_key=key.contiguous(),
            memory_value=value.contiguous(),
            key=memory.new_empty(rows, attention.heads, 0, d_k),
            value=memory.new_empty(rows, attention.heads, 0, d_v),
        )


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

    def step(self, x: Tensor, cache: DecoderCache, mask: Tensor | None) -> Tensor:
        """Transform the newest position x (R, 1, d_model) and remember it."""
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            assert isinstance(layer, DecoderLayer)
            x = layer.step(x, layer_cache, mask, cache.memory_mask)
        cache.length += 1
        return self.norm(x)

    def start_cache(self, memory: Tensor, memory_mask: Tensor, rows: int) -> DecoderCache:
        """Return the cache before the first step, for `rows` hypotheses over the memory's sentences."""
        layers = [layer.start_cache(memory, rows) for layer in self.layers if isinstance(layer, DecoderLayer)]
        return DecoderCache(layers=layers, memory_mask=memory_mask, length=0)
