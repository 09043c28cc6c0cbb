"""The kinds of model that a folder can hold: for each its configuration and its class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from sixfold.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.nn import BlockConfig

KindName = Literal["encoder_decoder", "decoder_only"]


@dataclass(frozen=True)
class Kind:
    """One kind of model."""

    config: type[BlockConfig]
    model: type[nn.Module]


KINDS: dict[KindName, Kind] = {
    "encoder_decoder": Kind(EncoderDecoderConfig, EncoderDecoder),
    "decoder_only": Kind(DecoderOnlyConfig, DecoderOnly),
}
