"""The recipe of a model that continues text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sixfold.data.texts import SEPARATORS
from sixfold.decode.config import GenerateConfig
from sixfold.errors import ConfigError
from sixfold.models.decoder_only import PRESETS, DecoderOnlyArchitecture, DecoderOnlyConfig
from sixfold.nn import BlockConfig
from sixfold.text import Subwords
from sixfold.training.recipe import Recipe, TrainConfig


class DataConfig(BaseModel):
    """How text becomes rows of tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vocabulary: int = Field(8000, ge=262, le=1_000_000, description="number of subwords")
    subwords: Subwords = "bpe"
    documents: str = Field("auto", min_length=1, description=SEPARATORS)
    context: int = Field(
        256, ge=2, le=65536, description="tokens per row, which is the most context that a token sees"
    )
    crosses_documents: bool = Field(
        True, description="whether a token also sees the documents before its own in a row"
    )
    valid_bytes: int = Field(
        200_000, ge=1, description="bytes of text held out for validation without --valid, at most"
    )


class ModelConfig(DecoderOnlyArchitecture):
    """The model to train."""

    def config(self, vocabulary: int) -> DecoderOnlyConfig:
        """Return the configuration for a vocabulary of this size."""
        return DecoderOnlyConfig(**self.model_dump(), vocabulary=vocabulary)


class GenerateTrainConfig(TrainConfig):
    """How to train a model that continues text."""

    optimizer: Literal["adam", "adamw"] = Field("adamw", description="adam, or adamw for weight decay")
    initialise: Literal["random", "bigrams"] = Field(
        "random", description="bigrams: embeddings and head from which token follows which; not for tied models"
    )
    valid_tokens: int = Field(32_000, ge=1, description="held-out tokens that one validation reads")


class GenerateRecipe(Recipe):
    """All choices of a run."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig.model_validate(PRESETS["gpt2"].model_dump())
    train: GenerateTrainConfig = GenerateTrainConfig()
    decode: GenerateConfig = GenerateConfig()

    presets: ClassVar[Mapping[str, BlockConfig]] = PRESETS

    @model_validator(mode="after")
    def check_initialisation(self) -> GenerateRecipe:
        """Refuse to begin a tied model as bigrams: what stands before a token is not what follows it."""
        if self.train.initialise == "bigrams" and self.model.tied:
            raise ConfigError(
                "train.initialise=bigrams gives the embedding and the head weights of their own, but "
                "model.tied=true makes them one matrix.",
                "Set model.tied=false, or train.initialise=random.",
            )
        return self

    @model_validator(mode="after")
    def check_positions(self) -> GenerateRecipe:
        """Refuse rows that are longer than the model's positions."""
        if self.data.context > self.model.max_positions:
            raise ConfigError(
                f"Rows of data.context={self.data.context:,} tokens need as many positions, but "
                f"model.max_positions is {self.model.max_positions:,}.",
                f"Set model.max_positions={self.data.context}, or data.context={self.model.max_positions}.",
            )
        return self
