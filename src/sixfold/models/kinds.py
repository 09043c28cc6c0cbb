"""The kinds of model that a folder can hold, each with its configuration and its class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from sixfold.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.encoder_only import EncoderOnly, EncoderOnlyConfig
from sixfold.nn import BlockConfig

KindName = Literal["encoder_decoder", "decoder_only", "encoder_only"]


@dataclass(frozen=True)
class Kind:
    """One kind of model."""

    config: type[BlockConfig]
    model: type[nn.Module]


KINDS: dict[KindName, Kind] = {
    "encoder_decoder": Kind(EncoderDecoderConfig, EncoderDecoder),
    "decoder_only": Kind(DecoderOnlyConfig, DecoderOnly),
    "encoder_only": Kind(EncoderOnlyConfig, EncoderOnly),
}


def new_model(config: BlockConfig) -> nn.Module:
    """Return a model with random weights, of the kind that has such a configuration."""
    return next(kind.model for kind in KINDS.values() if kind.config is type(config))(config)
