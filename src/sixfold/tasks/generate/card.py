"""The card of a model that continues text."""

from __future__ import annotations

from typing import cast

from sixfold.models.decoder_only import DecoderOnlyConfig
from sixfold.models.folder import ModelInfo
from sixfold.training.card import Card


def card(info: ModelInfo) -> Card:
    """Describe a model that continues text, or answers."""
    shape, heads = cast("DecoderOnlyConfig", info.model), ""
    if shape.key_value_heads not in (0, shape.heads):
        heads = f" ({shape.key_value_heads} key-value heads)"
    chat = info.processors["text"].chat
    example = '--chat "your question"' if chat else '"Once upon a time"'
    return Card(
        title=f"A model that {'answers' if chat else 'continues text'}",
        examples=f"{info.corpus.get('rows', 0):,} rows of text",
        command=f"sixfold generate . {example}",
        rows={
            "architecture": f"decoder-only Transformer, {shape.layers} layers, width {shape.d_model}, "
            f"feed-forward {shape.d_ff}, {shape.heads} heads{heads}, {shape.norm}-norm, {shape.positions} "
            f"positions, dropout {shape.dropout}",
            "context": f"{shape.max_positions:,} tokens",
            "vocabulary": f"{shape.vocabulary:,} tokens, any Unicode text",
        },
        expectation="more bits per byte",
        caution="The model writes what is likely, not what is true.",
    )
