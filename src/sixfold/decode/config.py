"""How a model folder says that its model is to be searched, or how it is to write."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.folder import ModelInfo, first_problem

GONE = ("read_back",)  # what earlier versions wrote: noisy-channel reranking


Defaults = TypeVar("Defaults", bound=BaseModel)


class DecodeConfig(BaseModel):
    """How to search; the defaults are the paper's (section 6.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beam: int = Field(4, ge=1, le=128)
    length_penalty: float = Field(0.6, ge=0, le=10, description="α of the GNMT penalty ((5+length)/6)^α")
    extra_tokens: int = Field(50, ge=1, le=10_000, description="an output may be this much longer than its input")


class GenerateConfig(BaseModel):
    """How a decoder-only model writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int = Field(256, ge=1, le=1_000_000, description="the most tokens of an answer")
    temperature: float = Field(0.8, ge=0, le=10, description="of the draws; 0: always the most probable token")
    top_k: int = Field(0, ge=0, le=1_000_000, description="draw from the k most probable tokens; 0: from all")
    top_p: float = Field(0.95, gt=0, le=1, description="draw from the most probable tokens that reach p together")
    min_p: float = Field(0.0, ge=0, le=1, description="draw no token less than p times as probable as the best")
    repetition_penalty: float = Field(
        1.0, ge=0.1, le=10, description="log-probabilities of tokens that are there already are multiplied by it"
    )


def decode_config(info: ModelInfo) -> DecodeConfig:
    """Return how a model folder is searched, checked."""
    return read_defaults(DecodeConfig, info)


def generate_config(info: ModelInfo) -> GenerateConfig:
    """Return how the model of a folder writes, checked."""
    return read_defaults(GenerateConfig, info)


def read_defaults(kind: type[Defaults], info: ModelInfo) -> Defaults:
    """Return the decoding defaults of a model folder; what earlier versions did besides is left out."""
    try:
        return kind.model_validate({key: value for key, value in info.decode.items() if key not in GONE})
    except (ValidationError, ConfigError) as error:
        raise ModelFolderError(f"sixfold.json cannot be read: decode.{first_problem(error)}") from error
