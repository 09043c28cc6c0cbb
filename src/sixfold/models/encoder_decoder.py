"""The Transformer of the paper (section 3): an encoder and a decoder that share one embedding matrix.

Shapes: B batch, M source positions, T target positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from sixfold.errors import ConfigError
from sixfold.nn import (
    BlockConfig,
    Embedding,
    Stack,
    TokenHead,
    TokenStem,
    causal_mask,
    local_mask,
    make_positions,
    padding_mask,
)

Kind = Literal["encoder", "decoder", "cross"]  # self-attention of either stack, attention to the memory
Watch = Callable[
    [Kind, Tensor], None
]  # gets each layer's attention weights (B, H, queries, keys), first layer first


class Architecture(BlockConfig):
    """The choices of a model's shape; the defaults are the paper's base model (table 3)."""

    encoder_layers: int = Field(6, ge=1, le=64, description="layers of the encoder")
    decoder_layers: int = Field(6, ge=1, le=64, description="layers of the decoder")
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    attention_width: int = Field(
        0, ge=0, le=65536, description="window of restricted self-attention; 0: full attention"
    )

    @model_validator(mode="after")
    def check_width(self) -> Architecture:
        """Refuse an odd width, which sinusoids do not have."""
        if self.d_model % 2:
            raise ConfigError(f"d_model must be even, because sinusoids come in pairs: got {self.d_model}.")
        return self


class EncoderDecoderConfig(Architecture):
    """An architecture, the size of its vocabulary, and the id of padding."""

    vocabulary: int = Field(ge=5, le=2_000_000)
    pad_id: int = Field(0, ge=0)


PRESETS: dict[str, Architecture] = {
    "tiny": Architecture(encoder_layers=4, decoder_layers=4, d_model=128, d_ff=256, heads=4, dropout=0.3),
    "small": Architecture(encoder_layers=3, decoder_layers=3, d_model=256, d_ff=1024, heads=4, dropout=0.2),
    "base": Architecture(),
    "big": Architecture(d_model=1024, d_ff=4096, heads=16, dropout=0.3),
}


class EncoderDecoder(nn.Module):
    """From the source tokens and the target tokens so far to the logits of the next one."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        embedding = Embedding(config.vocabulary, config.d_model)
        self.source = TokenStem(embedding, make_positions(config), config.dropout)
        self.target = TokenStem(embedding, make_positions(config), config.dropout)
        self.encoder = Stack(config, config.encoder_layers)
        self.decoder = Stack(config, config.decoder_layers, has_cross_attention=True)
        self.head = TokenHead(embedding)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the logits (B, T, V) of the token after each prefix of `target_in` (B, T)."""
        return self.head(self.hidden(source, target_in))

    def hidden(self, source: Tensor, target_in: Tensor, watch: Watch | None = None) -> Tensor:
        """Return the decoder's output (B, T, d_model); `watch` gets the attention weights on the way.

        Only `watch` can keep the weights: those of all layers of a large model and a long pair would fill the
        memory.
        """
        kinds: dict[str, Kind] = {"self": "decoder", "cross": "cross"}
        show = (lambda which, weights: watch(kinds[which], weights)) if watch else None
        memory = self.encode(source, watch)
        mask = self.target_mask(target_in.size(1), target_in.device)
        return self.decoder(self.target(target_in), mask, memory, padding_mask(source, self.config.pad_id), show)

    def encode(self, source: Tensor, watch: Watch | None = None) -> Tensor:
        """Return the memory (B, M, d_model) of the source tokens (B, M)."""
        mask, width = padding_mask(source, self.config.pad_id), self.config.attention_width
        if width:
            mask = mask & local_mask(source.size(1), width, source.device)
        show = (lambda _, weights: watch("encoder", weights)) if watch else None
        return self.encoder(self.source(source), mask, watch=show)

    def target_mask(self, length: int, device: torch.device) -> Tensor:
        """Return which target positions (length, length) may attend to which.

        Padding comes after the sentence, where causality hides it from every real position.
        """
        mask, width = causal_mask(length, device), self.config.attention_width
        return mask & local_mask(length, width, device) if width else mask


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
