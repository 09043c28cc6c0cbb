"""Where a Transformer looked: the attention weights of every layer and head in one pass over a given pair.

Shapes: B batch, H heads, M source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from sixfold.models.transformer import Transformer
from sixfold.nn import DecoderLayer, EncoderLayer, MultiHeadAttention, local_mask, padding_mask
from sixfold.nn.norm import Sublayer
from sixfold.text.tokens import PAD_ID

Kind = Literal["encoder", "decoder", "cross"]  # self-attention of either stack, attention to the memory
Watch = Callable[[Kind, Tensor], None]  # is shown each layer's weights (B, H, queries, keys), first layer first


@dataclass(frozen=True)
class AttentionMaps:
    """The weights of every layer, first layer first; they sum to 1 over the last dimension."""

    encoder: list[Tensor] = field(default_factory=list)  # (B, H, M, M) a layer
    decoder: list[Tensor] = field(default_factory=list)  # (B, H, T, T) a layer
    cross: list[Tensor] = field(default_factory=list)  # (B, H, T, M) a layer


def attention_maps(model: Transformer, source: Tensor, target_in: Tensor) -> AttentionMaps:
    """Return all attention weights for source tokens (B, M) and target tokens (B, T)."""
    maps = AttentionMaps()
    by_kind = {"encoder": maps.encoder, "decoder": maps.decoder, "cross": maps.cross}
    watched_hidden(model, source, target_in, lambda kind, weights: by_kind[kind].append(weights))
    return maps


def watched_hidden(model: Transformer, source: Tensor, target_in: Tensor, watch: Watch) -> Tensor:
    """Return what `model.hidden` returns, and show `watch` the weights on the way.

    Nothing is kept that `watch` does not keep: all maps of a long pair and a large model would fill the memory.
    """
    memory_mask, width = padding_mask(source, PAD_ID), model.config.attention_width
    mask = memory_mask & local_mask(source.size(1), width, source.device) if width else memory_mask
    memory = model.embed(source, model.source_positions)
    for layer in model.encoder.layers:
        assert isinstance(layer, EncoderLayer)
        memory = watched_encoder_layer(layer, memory, mask, watch)
    memory = model.encoder.norm(memory)
    x = model.embed(target_in, model.target_positions)
    target_mask = model.target_mask(target_in.size(1), target_in.device)
    for layer in model.decoder.layers:
        assert isinstance(layer, DecoderLayer)
        x = watched_decoder_layer(layer, x, memory, target_mask, memory_mask, watch)
    hidden: Tensor = model.decoder.norm(x)
    return hidden


def watched_encoder_layer(layer: EncoderLayer, x: Tensor, mask: Tensor, watch: Watch) -> Tensor:
    """Transform x (B, M, d_model) as the layer does."""
    x = layer.attention_residual(x, watched(layer.attention, None, mask, "encoder", watch))
    y: Tensor = layer.feed_forward_residual(x, layer.feed_forward)
    return y


def watched_decoder_layer(
    layer: DecoderLayer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor, watch: Watch
) -> Tensor:
    """Transform x (B, T, d_model) as the layer does."""
    x = layer.self_attention_residual(x, watched(layer.self_attention, None, mask, "decoder", watch))
    x = layer.cross_attention_residual(x, watched(layer.cross_attention, memory, memory_mask, "cross", watch))
    y: Tensor = layer.feed_forward_residual(x, layer.feed_forward)
    return y


def watched(
    attention: MultiHeadAttention, memory: Tensor | None, mask: Tensor, kind: Kind, watch: Watch
) -> Sublayer:
    """Return the attention to a memory (None: to itself) as a sub-layer that shows its weights."""

    def sublayer(x: Tensor) -> Tensor:
        output, weights = attention.with_weights(x, x if memory is None else memory, mask)
        watch(kind, weights)
        return output

    return sublayer
