"""Encoders on torch: the layers of `torch_engine.py`, whose rows do not depend on each other.

Texts are computed together if they have one padded length, which depends on the text alone.

Shapes: S texts, M positions, T tokens of a text, H heads, d = d_model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor

from sixfold.decode.engine import padded_length
from sixfold.decode.matrices import Precision
from sixfold.decode.torch_engine import UNSEEN, TorchLayers, lay_out
from sixfold.models.encoder_only import EncoderOnly
from sixfold.nn import ProjectionHead
from sixfold.nn.layout import final_norm_weights, layers_of
from sixfold.text.encoder_row import EncoderRow

BATCH_TOKENS = 4096  # of texts that are computed together, padding included


class TorchEncoder(TorchLayers):
    """An encoder-only model on any device."""

    def __init__(self, model: EncoderOnly, precision: Precision = "float32") -> None:
        super().__init__(model.config)
        self.model = model
        form = (self.width, model.config.activation, precision)
        self.layers = [lay_out(layer, *form) for layer in layers_of(model.stack)]
        self.last_norm = final_norm_weights(model.stack)

    @torch.inference_mode()
    def hidden(self, rows: Sequence[EncoderRow]) -> list[Tensor]:
        """Return the vectors (T, d) of each row's tokens."""
        found: dict[int, Tensor] = {}
        for batch in batches([len(row.tokens) for row in rows]):
            for number, vectors in zip(batch, self.encode([rows[i] for i in batch]), strict=True):
                found[number] = vectors[: len(rows[number].tokens)]
        return [found[number] for number in range(len(rows))]

    @torch.inference_mode()
    def vectors(self, rows: Sequence[EncoderRow]) -> Tensor:
        """Return one vector of length 1 (S, d) for each row."""
        pool = ProjectionHead(self.model.config.pooling)
        alone = (
            pool(hidden[None], hidden.new_ones(1, len(hidden), dtype=torch.bool)) for hidden in self.hidden(rows)
        )
        return torch.cat([torch.empty(0, self.model.config.d_model), *alone])

    def encode(self, rows: Sequence[EncoderRow]) -> Tensor:
        """Return the vectors (S, M, d) of rows of one padded length."""
        config = self.model.config
        length = min(padded_length(len(rows[0].tokens)), config.longest)
        device = self.model.stem.embedding.weight.device
        tokens = torch.tensor([filled(row.tokens, length, config.pad_id) for row in rows], device=device)
        types = torch.tensor([filled(row.types, length, 0) for row in rows], device=device)
        counts = torch.tensor([len(row.tokens) for row in rows], device=device)
        x = self.model.stem(tokens, config.first_position, types).flatten(0, 1)
        is_padding = torch.arange(length, device=device) >= counts[:, None]
        mask = x.new_zeros(tokens.shape).masked_fill_(is_padding, UNSEEN)[:, None]
        x = self.encode_rows(self.layers, x, mask.repeat_interleave(self.heads, dim=0))
        return (x if self.last_norm is None else self.last_norm(x)).view(*tokens.shape, -1)


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield which texts are computed together, longest first."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for padded, group in groupby(order, key=lambda i: padded_length(lengths[i])):
        texts, size = list(group), max(1, BATCH_TOKENS // padded)
        yield from (texts[begin : begin + size] for begin in range(0, len(texts), size))


def filled(numbers: list[int], length: int, filling: int) -> list[int]:
    """Return numbers with others behind them, so many in all."""
    return numbers + [filling] * (length - len(numbers))
