"""How a model folder says that its model is to be searched."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.folder import ModelInfo, first_problem

GONE = ("read_back",)  # what earlier versions wrote: noisy-channel reranking


class DecodeConfig(BaseModel):
    """How to search; the defaults are the paper's (section 6.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beam: int = Field(4, ge=1, le=128)
    length_penalty: float = Field(0.6, ge=0, le=10, description="α of the GNMT penalty ((5+length)/6)^α")
    extra_tokens: int = Field(50, ge=1, le=10_000, description="an output may be this much longer than its input")


def decode_config(info: ModelInfo) -> DecodeConfig:
    """Return the defaults of a model folder, checked; what earlier versions did besides is left out."""
    try:
        return DecodeConfig.model_validate({key: value for key, value in info.decode.items() if key not in GONE})
    except (ValidationError, ConfigError) as error:
        raise ModelFolderError(f"sixfold.json cannot be read: decode.{first_problem(error)}") from error
