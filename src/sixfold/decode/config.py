"""The decoding defaults of a model folder."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.folder import ModelInfo, first_problem

GONE = ("read_back",)  # keys of earlier versions: noisy-channel reranking


Defaults = TypeVar("Defaults", bound=BaseModel)


class DecodeConfig(BaseModel):
    """Defaults of beam search; those here are the paper's (section 6.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beam: int = Field(4, ge=1, le=128)
    length_penalty: float = Field(
        0.6,
        ge=0,
        le=10,
        description="α of the GNMT length penalty ((5+length)/6)^α; larger prefers longer translations",
    )
    extra_tokens: int = Field(
        50, ge=1, le=10_000, description="tokens by which an output may be longer than its input"
    )


class GenerateConfig(BaseModel):
    """Defaults of generation with a decoder-only model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int = Field(256, ge=1, le=1_000_000, description="maximum number of generated tokens")
    temperature: float = Field(
        0.8, ge=0, le=10, description="sampling temperature; 0: always the most probable token"
    )
    top_k: int = Field(0, ge=0, le=1_000_000, description="sample from the k most probable tokens; 0: from all")
    top_p: float = Field(
        0.95, gt=0, le=1, description="sample from the most probable tokens whose probabilities add up to p"
    )
    min_p: float = Field(
        0.0, ge=0, le=1, description="exclude tokens less than p times as probable as the most probable one"
    )
    repetition_penalty: float = Field(
        1.0, ge=0.1, le=10, description="factor on the log-probabilities of tokens that already occurred; 1: none"
    )


def decode_config(info: ModelInfo) -> DecodeConfig:
    """Return the checked search defaults of a model folder."""
    return read_defaults(DecodeConfig, info)


def generate_config(info: ModelInfo) -> GenerateConfig:
    """Return the checked generation defaults of a model folder."""
    return read_defaults(GenerateConfig, info)


def read_defaults(kind: type[Defaults], info: ModelInfo) -> Defaults:
    """Return the decoding defaults of a model folder, without keys of earlier versions."""
    try:
        return kind.model_validate({key: value for key, value in info.decode.items() if key not in GONE})
    except (ValidationError, ConfigError) as error:
        raise ModelFolderError(f"sixfold.json cannot be read: decode.{first_problem(error)}") from error
