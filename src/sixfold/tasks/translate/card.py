"""The card of a model that translates."""

from __future__ import annotations

from typing import cast

from sixfold.decode.config import decode_config
from sixfold.models.encoder_decoder import EncoderDecoderConfig
from sixfold.models.folder import ModelInfo
from sixfold.training.card import Card


def card(info: ModelInfo) -> Card:
    """Describe a model that translates."""
    languages = f"{info.languages.source or 'source'} → {info.languages.target or 'target'}"
    shape, decode, members = cast("EncoderDecoderConfig", info.model), decode_config(info), len(info.weights)
    several = f"ensemble of {members} Transformers whose probabilities are averaged, each with"
    return Card(
        title=f"A translation model, {languages}",
        examples=f"{info.corpus.get('pairs', 0):,} pairs of text",
        command='echo "your text" | sixfold translate .',
        rows={
            "architecture": f"{several if members > 1 else 'Transformer,'} {shape.encoder_layers} + "
            f"{shape.decoder_layers} layers, width {shape.d_model}, feed-forward {shape.d_ff}, "
            f"{shape.heads} heads, {shape.norm}-norm, dropout {shape.dropout}",
            "vocabulary": f"{shape.vocabulary:,} subwords for both languages, any Unicode text",
            "decoding": f"beam {decode.beam}, length penalty {decode.length_penalty}",
        },
        expectation="lower scores",
        caution="The model knows nothing beyond its training text and can be confidently wrong.",
    )
