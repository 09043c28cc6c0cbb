"""The recipe of encoder-only models; each task adds what only it needs to the data part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from sixfold.errors import ConfigError
from sixfold.models.encoder_only import PRESETS, EncoderOnlyArchitecture, EncoderOnlyConfig, HeadName
from sixfold.nn import BlockConfig
from sixfold.text import Subwords
from sixfold.training.recipe import Recipe, TrainConfig

AnyUnderstandRecipe = TypeVar("AnyUnderstandRecipe", bound="UnderstandRecipe")


class EncodedData(BaseModel):
    """How text becomes tokens, and what is held out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vocabulary: int = Field(8000, ge=262, le=1_000_000, description="number of subwords")
    subwords: Subwords = "bpe"
    max_tokens: int = Field(256, ge=8, le=65536, description="tokens that are read of a text; the rest is cut")
    valid_share: float = Field(0.1, gt=0, le=0.5, description="fraction held out when no --valid is given")
    valid_examples: int = Field(2000, ge=1, description="held out when no --valid is given, at most")


class EncoderModelConfig(EncoderOnlyArchitecture):
    """What is trained."""

    def config(self, vocabulary: int, pad_id: int, head: HeadName, labels: int) -> EncoderOnlyConfig:
        """Return the configuration for this vocabulary size and number of labels."""
        fields: dict[str, Any] = self.model_dump()
        return EncoderOnlyConfig(**fields, vocabulary=vocabulary, pad_id=pad_id, head=head, labels=labels)


class UnderstandTrainConfig(TrainConfig):
    """How to train an encoder."""

    optimizer: Literal["adam", "adamw"] = Field("adamw", description="adam, or adamw: with weight decay")


class Decoding(BaseModel):
    """How an answer is chosen; most encoders answer at once."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class UnderstandRecipe(Recipe):
    """All the choices of a run."""

    data: SerializeAsAny[EncodedData] = EncodedData()
    model: EncoderModelConfig = EncoderModelConfig.model_validate(PRESETS["encoder-tiny"].model_dump())
    train: SerializeAsAny[UnderstandTrainConfig] = UnderstandTrainConfig()
    decode: SerializeAsAny[Decoding] = Decoding()

    presets: ClassVar[Mapping[str, BlockConfig]] = PRESETS

    @model_validator(mode="after")
    def check_positions(self) -> UnderstandRecipe:
        """Refuse texts that are longer than the positions of the model."""
        room = self.model.max_positions - self.model.first_position
        if self.model.positions == "learned" and self.data.max_tokens > room:
            raise ConfigError(
                f"Texts of data.max_tokens={self.data.max_tokens:,} need as many positions, but the model has "
                f"{room:,}.",
                f"Set data.max_tokens={room}, or a larger model.max_positions.",
            )
        return self
