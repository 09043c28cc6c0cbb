"""Encoder-only models: the paper's encoder with a head (BERT, 2018, and RoBERTa, DistilBERT and MiniLM after it).

Shapes: B batch, T positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, model_validator
from torch import Tensor, nn

from sixfold.errors import ConfigError
from sixfold.nn import BlockConfig, Embedding, Stack, TokenHead, TokenStem, make_positions, padding_mask
from sixfold.nn.attention import Watch
from sixfold.nn.heads import (
    ClassHead,
    Pooler,
    PoolerActivation,
    Pooling,
    ProjectionHead,
    SpanHead,
    TagHead,
    TokenTransform,
    VectorHead,
)
from sixfold.nn.norms import make_norm
from sixfold.nn.stems import TokenTypes

MOST_TOKENS = 65536  # of a text, where positions are not learned
HeadName = Literal["vectors", "class", "tag", "span", "token", "projection"]


class EncoderOnlyArchitecture(BlockConfig):
    """The choices of a model's shape; a pooler is kept whether or not the head uses it, as published models do."""

    layers: int = Field(12, ge=1, le=128, description="layers")
    token_types: int = Field(2, ge=0, le=16, description="kinds of segments; 0: none are told apart")
    first_position: int = Field(0, ge=0, le=16, description="position of the first token")
    init_std: float = Field(0.02, gt=0, le=1, description="spread of the initial weights")
    pooling: Pooling = Field("first", description="vector of a text: that of its first token, or the mean of all")
    pooler: PoolerActivation = Field(
        "tanh", description="activation of the layer over a text's vector; none: no layer"
    )


class EncoderOnlyConfig(EncoderOnlyArchitecture):
    """An architecture, the tokens it knows, and what its head answers."""

    vocabulary: int = Field(ge=5, le=2_000_000)
    pad_id: int = Field(0, ge=0)
    head: HeadName = "vectors"
    labels: int = Field(0, ge=0, le=100_000, description="labels of a classifier or tagger")

    @property
    def longest(self) -> int:
        """Return the most tokens of a text."""
        return self.max_positions - self.first_position if self.positions == "learned" else MOST_TOKENS

    @model_validator(mode="after")
    def check_labels(self) -> EncoderOnlyConfig:
        """Refuse a classifier without labels, and labels without one."""
        if (self.head in ("class", "tag")) != (self.labels > 0):
            raise ConfigError(f"A head {self.head!r} with labels={self.labels} makes no sense.")
        return self


BERT: dict[str, Any] = {
    "activation": "gelu",
    "attention_bias": True,
    "positions": "learned",
    "max_positions": 512,
    "norm_epsilon": 1e-12,
}


def bert(layers: int, d_model: int, heads: int, **choices: Any) -> EncoderOnlyArchitecture:
    """Return an architecture of BERT's proportions."""
    shape = {"layers": layers, "d_model": d_model, "d_ff": 4 * d_model, "heads": heads}
    return EncoderOnlyArchitecture(**{**BERT, **shape, **choices})


PRESETS: dict[str, EncoderOnlyArchitecture] = {
    "encoder-tiny": bert(4, 128, 4, init_std=0.05),
    "encoder-small": bert(6, 256, 4, init_std=0.04),
    "minilm-l6": bert(6, 384, 12),
    "distilbert": bert(6, 768, 12, token_types=0, pooler="none"),
    "bert-base": bert(12, 768, 12),
    "bert-large": bert(24, 1024, 16),
}


class EncoderOnly(nn.Module):
    """Whole texts in, what the head makes of their tokens' vectors out."""

    def __init__(self, config: EncoderOnlyConfig) -> None:
        super().__init__()
        self.config = config
        embedding = Embedding(config.vocabulary, config.d_model, is_scaled=False)
        types = TokenTypes(config.token_types, config.d_model) if config.token_types else None
        self.stem = TokenStem(embedding, make_positions(config), config.dropout, types, make_norm(config))
        self.stack = Stack(config, config.layers)
        self.pooler = Pooler(config.d_model, config.pooling, config.pooler)
        self.head = make_head(config, embedding, self.pooler)
        initialise(self)

    def forward(self, tokens: Tensor, types: Tensor | None = None) -> Tensor:
        """Return the head's answer to tokens (B, T); `types` (B, T) tell segments apart. Padding stands behind."""
        return self.head(self.hidden(tokens, types), tokens != self.config.pad_id)

    def hidden(self, tokens: Tensor, types: Tensor | None = None, watch: Watch | None = None) -> Tensor:
        """Return the stack's output (B, T, d_model); `watch` is shown each layer's weights (B, H, T, T)."""
        show = (lambda _, weights: watch(weights)) if watch else None
        x = self.stem(tokens, self.config.first_position, types)
        return self.stack(x, padding_mask(tokens, self.config.pad_id), watch=show)


def make_head(config: EncoderOnlyConfig, embedding: Embedding, pooler: Pooler) -> nn.Module:
    """Return the head that a configuration names."""
    make: dict[HeadName, Callable[[], nn.Module]] = {
        "vectors": VectorHead,
        "class": lambda: ClassHead(pooler, config.d_model, config.labels, config.dropout),
        "tag": lambda: TagHead(config.d_model, config.labels, config.dropout),
        "span": lambda: SpanHead(config.d_model),
        "token": lambda: TokenHead(embedding, transform=TokenTransform(config), has_bias=True),
        "projection": lambda: ProjectionHead(config.pooling),
    }
    return make[config.head]()


def initialise(model: EncoderOnly) -> None:
    """Draw all matrices as BERT's are, with one spread; biases begin at 0."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=model.config.init_std)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
