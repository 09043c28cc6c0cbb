"""Contexts on the compiled kernels: computes the same as `decode/torch_contexts.py`, in one call for all contexts.

Keys and values are in pages. A page is written from its first position to its last and never overwritten. So
contexts share the pages of their common tokens, and a context that would write where another already has, after a
fork or a cut, continues in a copy.

Shapes: N tokens of all contexts, R rows, V vocabulary, d = d_model.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import torch
from torch import Tensor

from sixfold.decode.contexts import Context, ContextEngine, refuse_overflow
from sixfold.decode.kernel_engine import address, unfilled
from sixfold.decode.matrices import Precision
from sixfold.decode.packing import Packing
from sixfold.decode.torch_contexts import TorchContexts, position_tables
from sixfold.errors import RequestError
from sixfold.kernels.contexts import (
    ContextKernels,
    LayerStructure,
    ModelStructure,
    PredictionStructure,
    ReadingStructure,
    SpanStructure,
)
from sixfold.models.decoder_only import GPT, LLAMA, DecoderOnly, DecoderOnlyConfig
from sixfold.nn.config import Activation
from sixfold.nn.layout import LayerWeights, final_norm_weights, layers_of

ACTIVATIONS: list[Activation] = ["relu", "gelu", "gelu_tanh", "quick_gelu", "silu"]  # numbered as in contexts.c
MOST_ROWS = 256  # in one call


class Page:
    """Keys and values of consecutive positions in all layers."""

    def __init__(self, numbers: Tensor, written: int = 0) -> None:
        self.numbers, self.written = numbers, written
        self.address = numbers.data_ptr()

    def copy(self, written: int) -> Page:
        """Return a page with the same first positions."""
        return Page(self.numbers.clone(), written)


class KernelContext:
    """The tokens that a model has read, with their keys and values."""

    def __init__(self, engine: KernelContexts, tokens: Sequence[int], pages: Sequence[Page]) -> None:
        self.engine, self.tokens, self.pages = engine, [*tokens], [*pages]
        self.addresses = array("Q", [page.address for page in pages])

    def fork(self) -> Self:
        """Return another context with the same tokens, which shares all pages."""
        return type(self)(self.engine, self.tokens, self.pages)

    def cut(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        if length < len(self.tokens):
            del self.tokens[length:]
            self.replace_pages(-(-length // self.engine.page_length), [])

    def replace_pages(self, first: int, pages: Sequence[Page]) -> None:
        """Replace the pages beginning with `first`."""
        self.pages[first:] = pages
        self.addresses[first:] = array("Q", [page.address for page in pages])

    def make_room(self, count: int) -> None:
        """Make room for `count` more tokens in pages that only this context writes to."""
        length = self.engine.page_length
        full, begin = divmod(len(self.tokens), length)
        end = begin + count  # both relative to the first page that is not full
        if begin and self.pages[full].written != begin:
            self.replace_pages(full, [self.pages[full].copy(begin)])
        missing = -(-end // length) - (len(self.pages) - full)
        self.replace_pages(len(self.pages), [self.engine.new_page() for _ in range(missing)])
        for number, page in enumerate(self.pages[full:]):
            page.written = min(length, end - number * length)


@dataclass(frozen=True)
class Piece:
    """Tokens that are read into a context in one call."""

    context: KernelContext
    tokens: Sequence[int]


def calls(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Group pieces into calls of at most so many rows that they stay in the cache."""
    chosen, room = list[Piece](), MOST_ROWS
    for piece in pieces:
        begin = 0
        while begin < len(piece.tokens):
            part = piece.tokens[begin : begin + room]
            chosen.append(Piece(piece.context, part))
            begin, room = begin + len(part), room - len(part)
            if not room:
                yield chosen
                chosen, room = [], MOST_ROWS
    if chosen:
        yield chosen


class LayerPacking(Packing):
    """Packs the layers of decoder-only models."""

    def layer(self, weights: LayerWeights, width: int) -> LayerStructure:
        """Pack a layer, with every head padded to a width and W^Q divided by √d_k."""
        attention, network = weights.self_attention.divided().widened(width), weights.feed_forward
        inputs = [attention.query, *attention.shared]
        biases = [each.bias for each in inputs if each.bias is not None]
        return LayerStructure(
            inputs=self.matrix(torch.cat([each.weight for each in inputs]), torch.cat(biases) if biases else None),
            output=self.linear(attention.output),
            inner=self.linear(network.inner),
            outer=self.linear(network.outer),
            **({} if network.gate is None else {"gate": self.linear(network.gate)}),
            attention_norm=self.norm(weights.self_attention_norm),
            feed_forward_norm=self.norm(weights.feed_forward_norm),
        )


class KernelContexts:
    """A decoder-only model that reads tokens into contexts with the compiled kernels."""

    def __init__(self, model: DecoderOnly, precision: Precision, kernels: ContextKernels) -> None:
        config = self.config = model.config
        self.kernels, self.packing = kernels, LayerPacking(kernels.panel, precision)
        self.vocabulary, self.max_positions, self.page_length = (
            config.vocabulary,
            config.max_positions,
            kernels.page,
        )
        self.lock = threading.Lock()  # held while pages are allocated
        self.structure = self.packed(model, precision)
        self.address = ctypes.addressof(self.structure)
        self.work = threading.local()

    @staticmethod
    def supports(config: DecoderOnlyConfig, weight: Tensor) -> bool:
        """Return whether the kernels support a model: pre-norm, in float32 on a CPU."""
        return config.norm == "pre" and weight.device.type == "cpu" and weight.dtype == torch.float32

    def packed(self, model: DecoderOnly, precision: Precision) -> ModelStructure:
        """Lay out the weights."""
        config, packing = self.config, self.packing
        width = max(config.head_widths)
        width += -width % self.kernels.lanes
        layers = [packing.layer(weights, width) for weights in layers_of(model.stack)]
        self.layers = (LayerStructure * len(layers))(*layers)
        embedding = packing.padded(model.stem.embedding.weight.detach())
        positions, turns = position_tables(model)
        return ModelStructure(
            layers=ctypes.addressof(self.layers),
            last_norm=packing.norm(final_norm_weights(model.stack)),
            projection=packing.projection(model.head.weight),
            embedding=packing.keep(embedding),
            positions=None if positions is None else packing.keep(packing.padded(positions)),
            turns=None if turns is None else packing.keep(turns),
            embedding_scale=model.stem.embedding.scale,
            is_rms=config.norm_kind == "rms",
            is_int8=precision == "int8",
            activation=ACTIVATIONS.index(config.activation),
            num_layers=config.layers,
            d_model=config.d_model,
            padded_d_model=embedding.size(1),
            heads=config.heads,
            key_value_heads=config.key_value_heads or config.heads,
            head_width=width,
            half=config.head_widths[0] // 2,
            max_positions=config.max_positions,
        )

    def new_context(self) -> KernelContext:
        """Return a context without tokens."""
        return KernelContext(self, [], [])

    def new_page(self) -> Page:
        """Return an empty page."""
        shape = self.structure
        return Page(unfilled(shape.num_layers, shape.key_value_heads, 2, shape.head_width, self.page_length))

    @torch.inference_mode()
    def read(self, contexts: Sequence[Context], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append at least one token to each context; return the hidden states (N, d)."""
        pieces = [*map(self.checked, contexts, tokens)]
        hidden = unfilled(sum(map(len, tokens)), self.structure.padded_d_model)
        begin = 0
        for together in calls(pieces):
            end = begin + sum(len(piece.tokens) for piece in together)
            self.read_rows(together, hidden[begin:end])
            begin = end
        return hidden[:, : self.config.d_model]

    def checked(self, context: Context, tokens: Sequence[int]) -> Piece:
        """Refuse tokens without a position or outside the vocabulary."""
        assert isinstance(context, KernelContext), "a context of another engine"
        refuse_overflow(context, len(tokens), self.max_positions)
        if min(tokens) < 0 or max(tokens) >= self.vocabulary:
            raise RequestError(f"A token is not in the vocabulary: it must be from 0 to {self.vocabulary - 1:,}.")
        return Piece(context, tokens)

    def read_rows(self, pieces: Sequence[Piece], hidden: Tensor) -> None:
        """Read pieces in one call, and write their hidden states to `hidden`."""
        with self.lock:
            for piece in pieces:
                piece.context.make_room(len(piece.tokens))
        rows, threads = hidden.size(0), torch.get_num_threads()
        tokens = [array("q", piece.tokens) for piece in pieces]
        first_rows = accumulate(map(len, tokens), initial=0)
        spans = (SpanStructure * len(pieces))(*map(span, pieces, tokens, first_rows))
        longest = max(len(piece.context.tokens) + len(piece.tokens) for piece in pieces)
        reading = ReadingStructure(
            spans=ctypes.addressof(spans),
            num_spans=len(pieces),
            rows=rows,
            longest=longest,
            threads=threads,
            x=hidden.data_ptr(),
            room=self.room(rows, longest, threads),
        )
        self.kernels.read_tokens(self.address, ctypes.addressof(reading))
        for piece in pieces:
            piece.context.tokens.extend(piece.tokens)

    @torch.inference_mode()
    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Return the log-probabilities (R, V) of the next token."""
        rows, threads = self.packing.padded(hidden), torch.get_num_threads()
        logits = unfilled(rows.size(0), self.structure.projection.outputs)
        prediction = PredictionStructure(
            x=rows.data_ptr(),
            logits=logits.data_ptr(),
            rows=rows.size(0),
            threads=threads,
            room=self.room(rows.size(0), 0, threads),
        )
        self.kernels.log_probabilities(self.address, ctypes.addressof(prediction))
        return logits[:, : self.vocabulary]

    def room(self, rows: int, longest: int, threads: int) -> int:
        """Return the address of working memory for the kernels, valid in this thread until the next call."""
        needed = self.kernels.room_for(self.address, rows, longest, threads)
        if not hasattr(self.work, "room") or self.work.room.numel() < needed:
            self.work.room = torch.empty(needed, dtype=torch.uint8)
        return self.work.room.data_ptr()


def span(piece: Piece, tokens: array[int], first_row: int) -> SpanStructure:
    """Return the location of a piece's tokens, and the pages of their context."""
    return SpanStructure(
        address(piece.context.addresses), address(tokens), len(piece.context.tokens), len(tokens), first_row
    )


# The trial of a new library


@torch.inference_mode()
def try_out(path: str) -> None:
    """Fail unless a library computes the same as torch; it may also crash the process."""
    kernels = ContextKernels(ctypes.CDLL(path))
    torch.manual_seed(1)
    shape = {"vocabulary": 300, "layers": 2, "d_model": 72, "d_ff": 200, "max_positions": 100, "init_std": 0.1}
    for choices in ({**GPT, "heads": 3}, {**LLAMA, "heads": 6, "key_value_heads": 2}):
        model = DecoderOnly(DecoderOnlyConfig.model_validate({**shape, **choices})).eval()
        exact = trial_reading(TorchContexts(model))
        for threads in (1, 2):
            torch.set_num_threads(threads)
            single = trial_reading(KernelContexts(model, "float32", kernels))
            coarse = trial_reading(KernelContexts(model, "int8", kernels))
            torch.testing.assert_close(single, exact, rtol=0, atol=1e-4)
            torch.testing.assert_close(coarse, exact, rtol=0, atol=0.3)


def trial_reading(engine: ContextEngine) -> Tensor:
    """Return log-probabilities after texts of several pages, including a fork and a cut."""
    first, second = engine.new_context(), engine.new_context()
    engine.read([first, second], [[*range(5, 85)], [7]])
    third = first.fork()
    third.cut(40)
    hidden = engine.read([first, second, third], [[9], [*range(8, 21)], [11, 12]])
    return engine.log_probabilities(hidden)
