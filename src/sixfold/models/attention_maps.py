"""Where a model looked: the attention weights of every layer and head in one pass over a given pair.

Shapes: B batch, H heads, M source positions, T target positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from sixfold.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class AttentionMaps:
    """The weights of every layer, first layer first; they sum to 1 over the last dimension."""

    encoder: list[Tensor] = field(default_factory=list)  # (B, H, M, M) a layer
    decoder: list[Tensor] = field(default_factory=list)  # (B, H, T, T) a layer
    cross: list[Tensor] = field(default_factory=list)  # (B, H, T, M) a layer


def attention_maps(model: EncoderDecoder, source: Tensor, target_in: Tensor) -> AttentionMaps:
    """Return all attention weights for source tokens (B, M) and target tokens (B, T)."""
    maps = AttentionMaps()
    model.hidden(source, target_in, lambda kind, weights: getattr(maps, kind).append(weights))
    return maps
