"""The recipe of a translation model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sixfold.data.languages import MEANING, asked_languages
from sixfold.decode.config import DecodeConfig
from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import PRESETS, Architecture, EncoderDecoderConfig
from sixfold.nn import BlockConfig
from sixfold.settings import Former
from sixfold.text import Subwords
from sixfold.training.recipe import Recipe, TrainConfig

NUM_SPECIAL = 1  # EOS of the source and the target, or BOS of the decoder's input


class DataConfig(BaseModel):
    """How text becomes tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vocabulary: int = Field(8000, ge=262, le=1_000_000, description="number of subwords, shared by both languages")
    subwords: Subwords = "bpe"
    concatenate: float = Field(0.0, ge=0, le=1, description="fraction of batches whose pairs are concatenated")
    max_tokens: int = Field(
        256, ge=1, le=8192, description="maximum tokens per side; longer pairs are left out and counted"
    )
    valid_pairs: int = Field(1000, ge=1, description="pairs held out for validation without --valid")
    languages: list[str] = Field([], description=MEANING)

    @model_validator(mode="after")
    def check_languages(self) -> DataConfig:
        """Refuse any other number of languages than none or two."""
        asked_languages(self.languages)
        return self


class ModelConfig(Architecture):
    """The model to train: its shape, and the size of the ensemble."""

    ensemble: int = Field(1, ge=1, le=16, description="number of models, trained as one ensemble")

    def config(self, vocabulary: int, pad_id: int = 0) -> EncoderDecoderConfig:
        """Return the configuration of a member for a vocabulary of this size."""
        return EncoderDecoderConfig(**self.model_dump(exclude={"ensemble"}), vocabulary=vocabulary, pad_id=pad_id)


class TranslateTrainConfig(TrainConfig):
    """How to train a translation model."""

    initialise: Literal["random", "cooccurrence"] = Field(
        "random", description="random, or cooccurrence: embeddings from word co-occurrence in the pairs"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="ε of label smoothing")
    valid_sentences: int = Field(500, ge=1, description="held-out sentences translated per validation")


class TranslateRecipe(Recipe):
    """All choices of a run; the defaults are the paper's base model."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    train: TranslateTrainConfig = TranslateTrainConfig()
    decode: DecodeConfig = DecodeConfig()

    presets: ClassVar[Mapping[str, BlockConfig]] = PRESETS
    abbreviations: ClassVar[Mapping[str, Sequence[str]]] = {"layers": ("encoder_layers", "decoder_layers")}
    former: ClassVar[Mapping[str, Former]] = {
        "data.join": Former(now="data.concatenate"),
        "model.members": Former(now="model.ensemble"),
        "train.start": Former(now="train.initialise", values={"words": "cooccurrence"}),
        "train.dropout_rise": Former(now="train.dropout_warmup"),
        "train.most_forgotten": Former(now="train.max_forgetting"),
        "data.subword_dropout": Former(
            gone="with BPE-dropout BLEU was 7 lower at equal training time (docs/log.md)."
        ),
        "train.both_ways": Former(
            gone="training in both directions gained too little for its time (docs/log.md)."
        ),
        "decode.read_back": Former(gone="noisy-channel reranking gained too little for its time (docs/log.md)."),
    }

    @model_validator(mode="after")
    def check_positions(self) -> TranslateRecipe:
        """Refuse pairs that are longer than the learned positions."""
        needed = self.data.max_tokens + NUM_SPECIAL
        if self.model.positions == "learned" and self.model.max_positions < needed:
            raise ConfigError(
                f"Pairs of up to data.max_tokens={self.data.max_tokens} tokens need {needed} positions with their "
                f"end token, but model.max_positions is {self.model.max_positions}.",
                f"Set model.max_positions={needed}, or data.max_tokens={self.model.max_positions - NUM_SPECIAL}.",
            )
        return self
