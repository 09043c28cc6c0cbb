"""The configuration of a layer: one frozen definition, whose defaults are the paper's base model."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sixfold.errors import ConfigError
from sixfold.nn.dropout import MAX_DROPOUT

NormPlace = Literal["post", "pre"]
NormKind = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "gelu_tanh", "quick_gelu", "silu"]
Positions = Literal["sinusoidal", "learned", "rotary"]


class BlockConfig(BaseModel):
    """The choices of a layer (table 3); those that are not in the paper are for its descendants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    d_model: int = Field(512, ge=2, le=16384, description="width of the model")
    d_ff: int = Field(2048, ge=1, le=65536, description="width of the feed-forward layers")
    heads: int = Field(8, ge=1, le=256, description="attention heads")
    key_value_heads: int = Field(0, ge=0, le=256, description="key-value heads; 0: one for each query head")
    d_k: int = Field(0, ge=0, le=16384, description="width of a head's queries and keys; 0: d_model / heads")
    d_v: int = Field(0, ge=0, le=16384, description="width of a head's values; 0: d_model / heads")
    score_scale: float = Field(0.0, ge=0, le=1e4, description="factor of the attention scores; 0: 1/√d_k")
    positions: Positions = Field("sinusoidal", description="how the model knows the positions of tokens")
    max_positions: int = Field(1024, ge=2, le=65536, description="number of learned positions")
    rotary_base: float = Field(
        10_000.0, gt=1, le=1e9, description="base of the wavelengths of rotary positions (RoPE theta)"
    )
    dropout: float = Field(0.1, ge=0, le=MAX_DROPOUT, description="dropout probability")
    norm: NormPlace = Field("post", description="norm after (post, the paper's) or before (pre) each sublayer")
    norm_kind: NormKind = Field("layer", description="layer or rms normalisation")
    norm_epsilon: float = Field(1e-5, gt=0, lt=1, description="ε of the norms")
    activation: Activation = "relu"
    gated: bool = Field(False, description="multiply the activation by a second projection")
    attention_bias: bool = Field(False, description="biases of queries, keys, values and the output")
    feed_forward_bias: bool = Field(True, description="biases of the feed-forward layers")

    @model_validator(mode="after")
    def check_heads(self) -> BlockConfig:
        """Refuse heads whose width cannot be derived, or that cannot be shared evenly."""
        if self.d_model % self.heads and not (self.d_k and self.d_v):
            raise ConfigError(
                f"d_model must divide evenly among the heads: d_model={self.d_model}, heads={self.heads} "
                f"leaves {self.d_model % self.heads} over.",
                f"Try heads={nearest_divisor(self.d_model, self.heads)}, or give d_k and d_v.",
            )
        if self.key_value_heads and self.heads % self.key_value_heads:
            raise ConfigError(
                f"The heads must share the key-value heads evenly: heads={self.heads}, "
                f"key_value_heads={self.key_value_heads}.",
                f"Try key_value_heads={nearest_divisor(self.heads, self.key_value_heads)}.",
            )
        if self.positions == "rotary" and self.head_widths[0] % 2:
            raise ConfigError(
                f"Rotary positions rotate pairs of numbers, so d_k must be even: it is {self.head_widths[0]}."
            )
        return self

    @property
    def head_widths(self) -> tuple[int, int]:
        """Return d_k and d_v, each d_model / heads unless stated (section 3.2.2)."""
        width = self.d_model // self.heads
        return self.d_k or width, self.d_v or width

    @property
    def query_divisor(self) -> float:
        """Return the divisor of the attention scores: √d_k unless stated."""
        return 1 / self.score_scale if self.score_scale else math.sqrt(self.head_widths[0])


def nearest_divisor(number: int, wish: int) -> int:
    """Return the divisor of `number` closest to `wish`."""
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: abs(d - wish))
