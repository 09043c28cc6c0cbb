"""How a model folder says that its model is to be searched."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.folder import ModelInfo, first_problem


class DecodeConfig(BaseModel):
    """How to search; the defaults are the paper's (section 6.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beam: int = Field(4, ge=1, le=128)
    length_penalty: float = Field(0.6, ge=0, le=10, description="α of the GNMT penalty ((5+length)/6)^α")
    extra_tokens: int = Field(50, ge=1, le=10_000, description="an output may be this much longer than its input")
    read_back: float = Field(0.0, ge=0, le=10, description="what the source's score after the output counts")


def decode_config(info: ModelInfo) -> DecodeConfig:
    """Return the defaults of a model folder, checked."""
    try:
        return DecodeConfig.model_validate(info.decode)
    except (ValidationError, ConfigError) as error:
        raise ModelFolderError(f"sixfold.json cannot be read: decode.{first_problem(error)}") from error
