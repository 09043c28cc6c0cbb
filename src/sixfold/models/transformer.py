"""The Transformer (section 3): encoder, decoder and the one matrix they share.

Shapes: B batch, M source positions, T target positions, V vocabulary.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from sixfold.errors import ConfigError
from sixfold.nn import (
    Decoder,
    DecoderLayer,
    Dropout,
    Encoder,
    EncoderLayer,
    FeedForward,
    LearnedPositions,
    MultiHeadAttention,
    SinusoidalPositions,
    TiedEmbedding,
    causal_mask,
    local_mask,
    padding_mask,
)
from sixfold.text.tokens import PAD_ID


class Architecture(BaseModel):
    """The choices of a model's shape; the defaults are the paper's base model (table 3)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder_layers: int = Field(6, ge=1, le=64)
    decoder_layers: int = Field(6, ge=1, le=64)
    d_model: int = Field(512, ge=2, le=16384)
    d_ff: int = Field(2048, ge=1, le=65536)
    heads: int = Field(8, ge=1, le=256)
    d_k: int = Field(0, ge=0, le=16384, description="width of a head's queries and keys; 0: d_model / heads")
    d_v: int = Field(0, ge=0, le=16384, description="width of a head's values; 0: d_model / heads")
    dropout: float = Field(0.1, ge=0, lt=1)
    norm: Literal["post", "pre"] = "post"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: int = Field(1024, ge=2, le=65536, description="how many are learned, if they are")
    attention_width: int = Field(0, ge=0, le=65536, description="of restricted self-attention; 0: full")
    attention_bias: bool = False
    members: int = Field(1, ge=1, le=16, description="models of this shape, whose predictions are averaged")

    @model_validator(mode="after")
    def check_heads(self) -> Architecture:
        """Refuse head widths that cannot be derived."""
        if self.d_model % self.heads and not (self.d_k and self.d_v):
            raise ConfigError(
                f"d_model must divide evenly among the heads: d_model={self.d_model}, heads={self.heads} "
                f"leaves {self.d_model % self.heads} over.",
                f"Try heads={nearest_divisor(self.d_model, self.heads)}, or give d_k and d_v.",
            )
        if self.d_model % 2:
            raise ConfigError(f"d_model must be even, because sinusoids come in pairs: got {self.d_model}.")
        return self


class TransformerConfig(Architecture):
    """An architecture and the number of tokens it knows."""

    vocabulary: int = Field(ge=5, le=2_000_000)


PRESETS: dict[str, Architecture] = {
    "tiny": Architecture(encoder_layers=4, decoder_layers=4, d_model=128, d_ff=256, heads=4, dropout=0.3),
    "small": Architecture(encoder_layers=3, decoder_layers=3, d_model=256, d_ff=1024, heads=4, dropout=0.2),
    "base": Architecture(),
    "big": Architecture(d_model=1024, d_ff=4096, heads=16, dropout=0.3),
}


class Transformer(nn.Module):
    """The encoder-decoder model: source tokens and target tokens so far in, logits of the next token out."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.members != 1:
            raise ConfigError(
                f"A Transformer is one model, but members={config.members}.",
                "sixfold.models.ensemble.make_model makes several.",
            )
        self.config = config
        self.embedding = TiedEmbedding(config.vocabulary, config.d_model)
        self.source_positions = make_positions(config)
        # Learned positions are learned for each side; the sinusoids are the same table for both.
        self.target_positions = make_positions(config) if config.positions == "learned" else self.source_positions
        self.dropout = Dropout(config.dropout)
        encoder_layers = [make_encoder_layer(config) for _ in range(config.encoder_layers)]
        decoder_layers = [make_decoder_layer(config) for _ in range(config.decoder_layers)]
        self.encoder = Encoder(encoder_layers, config.norm, config.d_model)
        self.decoder = Decoder(decoder_layers, config.norm, config.d_model)

    @property
    def members(self) -> list[Transformer]:
        """This model, as the only member of itself (`Ensemble` has several)."""
        return [self]

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the logits (B, T, V) of the token after each prefix of `target_in` (B, T)."""
        return self.embedding.logits(self.hidden(source, target_in))

    def hidden(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the decoder's output (B, T, d_model), before the projection to the vocabulary."""
        memory = self.encode(source)
        x = self.embed(target_in, self.target_positions)
        mask = self.target_mask(target_in.size(1), target_in.device)
        return self.decoder(x, memory, mask, padding_mask(source, PAD_ID))

    def encode(self, source: Tensor) -> Tensor:
        """Return the memory (B, M, d_model) of the source tokens (B, M)."""
        mask, width = padding_mask(source, PAD_ID), self.config.attention_width
        if width:
            mask = mask & local_mask(source.size(1), width, source.device)
        return self.encoder(self.embed(source, self.source_positions), mask)

    def embed(self, tokens: Tensor, positions: nn.Module, start: int = 0) -> Tensor:
        """Return dropout(√d_model · embedding + position), the input of either stack."""
        return self.dropout(self.embedding(tokens) + positions(start, tokens.size(1)))

    def target_mask(self, length: int, device: torch.device) -> Tensor:
        """Return which target positions (length, length) see which.

        Padding stands behind the sentence, where causality already hides it from every real position.
        """
        mask, width = causal_mask(length, device), self.config.attention_width
        return mask & local_mask(length, width, device) if width else mask


def make_positions(config: TransformerConfig) -> nn.Module:
    """Return the positional encoding the configuration asks for."""
    if config.positions == "learned":
        return LearnedPositions(config.d_model, config.max_positions)
    return SinusoidalPositions(config.d_model)


def make_attention(config: TransformerConfig) -> MultiHeadAttention:
    """Return one multi-head attention; d_k = d_v = d_model/h unless stated (section 3.2.2)."""
    width = config.d_model // config.heads
    return MultiHeadAttention(
        config.d_model, config.heads, config.d_k or width, config.d_v or width, config.attention_bias
    )


def make_encoder_layer(config: TransformerConfig) -> EncoderLayer:
    """Return one layer of the encoder."""
    feed_forward = FeedForward(config.d_model, config.d_ff)
    return EncoderLayer(make_attention(config), feed_forward, config.norm, config.dropout)


def make_decoder_layer(config: TransformerConfig) -> DecoderLayer:
    """Return one layer of the decoder."""
    feed_forward = FeedForward(config.d_model, config.d_ff)
    return DecoderLayer(make_attention(config), make_attention(config), feed_forward, config.norm, config.dropout)


def nearest_divisor(number: int, wish: int) -> int:
    """Return the divisor of `number` closest to `wish`."""
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: abs(d - wish))


def count_parameters(model: nn.Module) -> int:
    """Return how many numbers training would change."""
    return sum(parameter.numel() for parameter in model.parameters())
