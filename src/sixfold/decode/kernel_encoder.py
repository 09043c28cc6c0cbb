"""Encoders on the compiled kernels: what `decode/torch_encoder.py` computes, without padding.

Shapes: S texts, R tokens of all texts, T tokens of a text, d = d_model, padded to whole panels.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, product

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from sixfold.decode.kernel_contexts import ACTIVATIONS, LayerPacking
from sixfold.decode.kernel_engine import unfilled
from sixfold.decode.matrices import Precision, rounded
from sixfold.decode.torch_encoder import TorchEncoder
from sixfold.errors import RequestError
from sixfold.kernels.contexts import LayerStructure
from sixfold.kernels.decoding import MatrixStructure
from sixfold.kernels.encoding import EncoderKernels, ModelStructure, TextsStructure
from sixfold.models.encoder_only import BERT, EncoderOnly, EncoderOnlyConfig
from sixfold.nn import LearnedPositions
from sixfold.nn.layout import final_norm_weights, layers_of, norm_weights
from sixfold.text.encoder_row import EncoderRow

Numbers = NDArray[np.int64]
PRECISIONS: dict[Precision, float] = {
    "float32": 1e-5,
    "int8": 1e-2,
}  # and how far a unit vector may be from torch's
BATCH_ROWS = 192  # that a thread takes through all layers: they stay in its cache


class WordPacking(LayerPacking):
    """Packs weights of 8 bits that are multiplied with inputs of 16: of an output, some inputs share a scale."""

    def __init__(self, panel: int, precision: Precision, group: int) -> None:
        super().__init__(panel, precision)
        self.group = group

    def matrix(self, weight: Tensor, bias: Tensor | None = None) -> MatrixStructure:
        """Pack a weight (O, I), as `nn.Linear` has it, in panels of outputs."""
        if self.precision != "int8":
            return super().matrix(weight, bias)
        bias = weight.new_zeros(weight.size(0)) if bias is None else bias
        weight = F.pad(weight.detach(), [0, -weight.size(1) % self.panel, 0, -weight.size(0) % self.panel])
        outputs, inputs = weight.shape
        parts = [rounded(part) for part in weight.split(self.group, dim=1)]
        whole, scales = (torch.cat(each, dim=1) for each in zip(*parts, strict=True))  # (O, I) and (O, groups)
        pairs = whole.view(-1, self.panel, inputs // 2, 2).transpose(1, 2)
        by_panel = scales.view(-1, self.panel, len(parts)).transpose(1, 2)
        return MatrixStructure(self.keep(pairs), self.keep(by_panel), self.vector(bias), inputs, outputs)


class KernelEncoder:
    """An encoder-only model, ready to read texts with the compiled kernels."""

    def __init__(self, model: EncoderOnly, precision: Precision, kernels: EncoderKernels) -> None:
        self.config, self.kernels = model.config, kernels
        self.packing = WordPacking(kernels.panel, precision, kernels.group)
        self.structure = self.packed(model, precision)
        self.address = ctypes.addressof(self.structure)
        self.work = threading.local()

    @staticmethod
    def supports(config: EncoderOnlyConfig, weight: Tensor) -> bool:
        """Return whether the kernels compute such a model: with learned positions, in float32 on a CPU."""
        return config.positions == "learned" and weight.device.type == "cpu" and weight.dtype == torch.float32

    def packed(self, model: EncoderOnly, precision: Precision) -> ModelStructure:
        """Lay out the weights."""
        config, packing, stem = self.config, self.packing, model.stem
        width = max(config.head_widths)
        width += -width % self.kernels.lanes
        layers = [packing.layer(weights, width) for weights in layers_of(model.stack)]
        self.layers = (LayerStructure * len(layers))(*layers)
        assert isinstance(stem.positions, LearnedPositions)
        tables: dict[str, Tensor] = {
            "embedding": stem.embedding.weight,
            "positions": stem.positions.table[config.first_position :],
        }
        if stem.token_types is not None:
            tables["types"] = stem.token_types.table
        return ModelStructure(
            layers=ctypes.addressof(self.layers),
            first_norm=packing.norm(None if stem.norm is None else norm_weights(stem.norm)),
            last_norm=packing.norm(final_norm_weights(model.stack)),
            **{name: packing.keep(packing.padded(table.detach())) for name, table in tables.items()},
            embedding_scale=stem.embedding.scale,
            is_pre_norm=config.norm == "pre",
            is_rms=config.norm_kind == "rms",
            is_int8=precision == "int8",
            activation=ACTIVATIONS.index(config.activation),
            num_layers=config.layers,
            d_model=config.d_model,
            padded_d_model=config.d_model + -config.d_model % self.kernels.panel,
            heads=config.heads,
            head_width=width,
        )

    def hidden(self, rows: Sequence[EncoderRow]) -> list[Tensor]:
        """Return the vectors (T, d) of each row's tokens."""
        lengths = [len(row.tokens) for row in rows]
        hidden = unfilled(sum(lengths), self.structure.padded_d_model)
        self.encode(rows, hidden=hidden.data_ptr())
        return list(hidden[:, : self.config.d_model].split(lengths))

    def vectors(self, rows: Sequence[EncoderRow]) -> Tensor:
        """Return one vector of length 1 (S, d) for each row."""
        vectors = unfilled(len(rows), self.structure.padded_d_model)
        self.encode(rows, vectors=vectors.data_ptr())
        return vectors[:, : self.config.d_model]

    def encode(self, rows: Sequence[EncoderRow], hidden: int | None = None, vectors: int | None = None) -> None:
        """Compute the rows; what is made of them goes to one of these addresses."""
        if not rows:
            return
        lengths, threads = [len(row.tokens) for row in rows], torch.get_num_threads()
        tokens, types = (whole_numbers(row.tokens for row in rows), whole_numbers(row.types for row in rows))
        self.refuse_unknown(tokens, types, max(lengths))
        begins = np.array([0, *accumulate(lengths)])
        batches = np.array(first_texts(lengths, min(BATCH_ROWS, -(-sum(lengths) // threads))))
        most_rows, longest = int(np.diff(begins[batches]).max()), max(lengths)
        room = self.room(self.kernels.room_for(self.address, most_rows, longest) * threads)
        texts = TextsStructure(
            *(each.ctypes.data for each in (tokens, types, begins, batches)),
            num_batches=len(batches) - 1,
            most_rows=most_rows,
            longest=longest,
            threads=threads,
            hidden=hidden,
            vectors=vectors,
            is_mean=self.config.pooling == "mean",
            room=room,
        )
        self.kernels.encode(self.address, ctypes.addressof(texts))

    def refuse_unknown(self, tokens: Numbers, types: Numbers, longest: int) -> None:
        """Refuse what would be read outside the tables."""
        config = self.config
        if tokens.min() < 0 or tokens.max() >= config.vocabulary:
            raise RequestError(f"A token must be from 0 to {config.vocabulary - 1:,}.")
        if types.min() < 0 or types.max() >= max(1, config.token_types):
            raise RequestError(f"A segment must be from 0 to {max(1, config.token_types) - 1}.")
        if longest > config.longest:
            raise RequestError(f"A text has {longest:,} tokens; the model has positions for {config.longest:,}.")

    def room(self, needed: int) -> int:
        """Return the address of memory for the kernels to work in, of this thread and until its next call."""
        if not hasattr(self.work, "room") or self.work.room.numel() < needed:
            self.work.room = torch.empty(needed, dtype=torch.uint8)
        return self.work.room.data_ptr()


def whole_numbers(rows: Iterable[list[int]]) -> Numbers:
    """Return the numbers of all rows, one after the other, as the kernels read them."""
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64)


def first_texts(lengths: Sequence[int], most_rows: int) -> list[int]:
    """Return the first text of each batch, and how many texts there are; a batch has at least one text."""
    firsts, rows = [0], 0
    for text, length in enumerate(lengths):
        if rows and rows + length > most_rows:
            firsts.append(text)
            rows = 0
        rows += length
    return [*firsts, len(lengths)]


# The trial of a new library


@torch.inference_mode()
def try_out(path: str) -> None:
    """Fail unless a library computes what torch does; it may also take the whole process down."""
    kernels = EncoderKernels(ctypes.CDLL(path))
    torch.manual_seed(1)
    shape = {**BERT, "vocabulary": 300, "layers": 2, "d_model": 72, "d_ff": 200, "heads": 3, "max_positions": 90}
    rows = [
        EncoderRow([*range(5, 5 + length)], [0] * 3 + [1] * (length - 3), (1,), False) for length in (80, 3, 17)
    ]
    for choices in ({"pooling": "mean"}, {"norm": "pre", "norm_kind": "rms", "gated": True, "activation": "silu"}):
        model = EncoderOnly(EncoderOnlyConfig.model_validate({**shape, **choices, "init_std": 0.1})).eval()
        exact = TorchEncoder(model)
        for threads, (precision, tolerance) in product((1, 2), PRECISIONS.items()):
            torch.set_num_threads(threads)
            engine = KernelEncoder(model, precision, kernels)
            found, expected = torch.cat(engine.hidden(rows)), torch.cat(exact.hidden(rows))
            torch.testing.assert_close(engine.vectors(rows), exact.vectors(rows), rtol=0, atol=tolerance)
            torch.testing.assert_close(found, expected, rtol=0, atol=20 * tolerance)
