"""Encoders, laid out for use: texts in, the vectors of their tokens out.

`torch_encoder.py` computes on any device and is the reference; the compiled kernels are faster, for what they
support. A text's numbers depend on the text alone, to the bit: not on the others that are computed with it, nor on
the number of threads.

Shapes: T tokens of a text, S texts, d = d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from sixfold.text.encoder_row import EncoderRow, RowFormat

if TYPE_CHECKING:
    from sixfold.decode.matrices import Precision
    from sixfold.models.encoder_only import EncoderOnly
    from sixfold.models.folder import Processor
    from sixfold.text import AnyTokenizer


class Encoder(Protocol):
    """An encoder-only model without its head."""

    def hidden(self, rows: Sequence[EncoderRow]) -> list[Tensor]:
        """Return the vectors (T, d) of each row's tokens."""

    def vectors(self, rows: Sequence[EncoderRow]) -> Tensor:
        """Return one vector of length 1 (S, d) for each row, as a `ProjectionHead` makes it."""


def open_encoder(model: EncoderOnly, precision: Precision = "float32") -> Encoder:
    """Lay out an encoder, on the compiled kernels where they support it."""
    from sixfold.decode.kernel_encoder import KernelEncoder
    from sixfold.decode.torch_encoder import TorchEncoder
    from sixfold.kernels.encoding import find_encoder_kernels

    if KernelEncoder.supports(model.config, model.stem.embedding.weight):
        kernels = find_encoder_kernels().kernels
        if kernels is not None:
            return KernelEncoder(model, precision, kernels)
    return TorchEncoder(model, precision)


class TextEncoder:
    """An encoder-only model with its tokenizer: raw texts to what its head makes of them."""

    def __init__(
        self, model: EncoderOnly, tokenizer: AnyTokenizer, side: Processor, precision: Precision = "float32"
    ) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        longest = min(model.config.longest, side.max_tokens or model.config.longest)
        has_segments = model.config.token_types > 1
        self.format = RowFormat(tokenizer.special, longest, side.separators, has_segments)
        with torch.inference_mode():
            self.encoder = open_encoder(model, precision)

    def rows(self, texts: Sequence[str]) -> list[EncoderRow]:
        """Return the tokens of each text; one that is too long loses its end, and its row says so."""
        return [self.format.one(ids) for ids in self.tokenizer.encode_batch(texts)]

    def answers(self, rows: Sequence[EncoderRow]) -> list[Tensor]:
        """Return the head's answer to each row, without the dimension of rows.

        The head computes each alone, because the last bits of a product can depend on how many rows it has.
        """
        with torch.inference_mode():
            return [self.answer(hidden) for hidden in self.encoder.hidden(rows)]

    def answer(self, hidden: Tensor) -> Tensor:
        """Return the head's answer to the vectors (T, d) of one text."""
        present = torch.ones(1, hidden.size(0), dtype=torch.bool, device=hidden.device)
        return self.model.head(hidden[None], present)[0]
