"""Decoder-only models: the paper's decoder without cross-attention (GPT, 2018, and Llama, 2023).

Shapes: B batch, T positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field
from torch import Tensor, nn

from sixfold.nn import BlockConfig, Embedding, Stack, TokenHead, TokenStem, make_positions
from sixfold.nn.attention import Watch
from sixfold.nn.layer import Layer
from sixfold.nn.masks import Mask


class DecoderOnlyArchitecture(BlockConfig):
    """The choices of a model's shape; a token sees at most `max_positions` tokens, itself included."""

    layers: int = Field(12, ge=1, le=128, description="layers")
    tied: bool = Field(True, description="logits use the embedding's matrix (tied weights)")
    scaled_embedding: bool = Field(False, description="multiply embeddings by √d_model, as the paper does")
    init_std: float = Field(0.02, gt=0, le=1, description="standard deviation of the initial weights")


class DecoderOnlyConfig(DecoderOnlyArchitecture):
    """An architecture and the size of its vocabulary."""

    vocabulary: int = Field(ge=5, le=2_000_000)


GPT: dict[str, Any] = {
    "norm": "pre",
    "activation": "gelu_tanh",
    "attention_bias": True,
    "positions": "learned",
}
LLAMA: dict[str, Any] = {
    "norm": "pre",
    "norm_kind": "rms",
    "activation": "silu",
    "gated": True,
    "feed_forward_bias": False,
    "positions": "rotary",
}


def gpt(layers: int, d_model: int, heads: int, context: int, **choices: float) -> DecoderOnlyArchitecture:
    """Return an architecture of GPT-2's proportions."""
    shape: dict[str, Any] = {"layers": layers, "d_model": d_model, "d_ff": 4 * d_model, "heads": heads}
    return DecoderOnlyArchitecture(**GPT, **shape, max_positions=context, **choices)


def llama(layers: int, d_model: int, d_ff: int, **choices: float) -> DecoderOnlyArchitecture:
    """Return an architecture of Llama's kind, for a small computer."""
    shape: dict[str, Any] = {"layers": layers, "d_model": d_model, "d_ff": d_ff, "max_positions": 256}
    return DecoderOnlyArchitecture(**LLAMA, **shape, **choices)


PRESETS: dict[str, DecoderOnlyArchitecture] = {
    "gpt-tiny": gpt(4, 128, 4, context=256, init_std=0.05),
    "gpt-small": gpt(6, 384, 6, context=256, init_std=0.03),
    "llama-tiny": llama(4, 128, 352, heads=4, key_value_heads=2, init_std=0.05),
    "llama-small": llama(6, 384, 1024, heads=6, key_value_heads=2, init_std=0.03),
    "gpt2": gpt(12, 768, 12, context=1024),
    "gpt2-medium": gpt(24, 1024, 16, context=1024),
    "gpt2-large": gpt(36, 1280, 20, context=1024),
    "gpt2-xl": gpt(48, 1600, 25, context=1024),
}


class DecoderOnly(nn.Module):
    """From the tokens so far to the logits of the next one."""

    def __init__(self, config: DecoderOnlyConfig) -> None:
        super().__init__()
        self.config = config
        embedding = Embedding(config.vocabulary, config.d_model, config.scaled_embedding)
        self.stem = TokenStem(embedding, make_positions(config), config.dropout)
        self.stack = Stack(config, config.layers)
        self.head = TokenHead(embedding, config.tied)
        initialise(self)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits (B, T, V) of the token after each prefix of `tokens` (B, T)."""
        return self.head(self.hidden(tokens))

    def hidden(self, tokens: Tensor, mask: Mask = "causal", watch: Watch | None = None) -> Tensor:
        """Return the stack's output (B, T, d_model); `watch` gets each layer's attention weights (B, H, T, T).

        Position i sees the positions up to i, or those that a `mask` (B, 1, T, T) allows. Padding comes after the
        text, where causality hides it from every real position.
        """
        show = (lambda _, weights: watch(weights)) if watch else None
        return self.stack(self.stem(tokens), mask, watch=show)


def initialise(model: DecoderOnly) -> None:
    """Initialise all matrices as in GPT-2: from N(0, init_std²), the last of each sublayer with less variance."""
    std = model.config.init_std
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and "norm" not in name:
            nn.init.normal_(parameter, std=std)
    for layer in model.stack.layers:
        assert isinstance(layer, Layer)
        for last in (layer.self_attention.output, layer.feed_forward.outer):
            nn.init.normal_(last.weight, std=std * (2 * model.config.layers) ** -0.5)
