"""Contexts on torch: for every configuration and device, and the reference for the compiled kernels.

The cache of a context is a list of blocks of 64 tokens, as in paged attention: a fork shares the full blocks and
copies the last. All sums have a fixed length, however many tokens are read at once and however long the context
is: a query's scores and its weighted sum of values are computed block by block, and masked positions add 0.
Products with weights are those of `decode/matrices.py`. So the results for a token depend, to the bit, only on the
tokens before it.

Shapes: N tokens of all contexts, n of one of them, H heads of queries, K of keys and values, G = H/K, D width
of a head, R = G·n rows of queries that share keys and values, P slots of the cache; d = d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from sixfold.decode.contexts import Context, refuse_overflow
from sixfold.decode.matrices import FEWEST_ROWS, Matrix, Precision, make_matrix
from sixfold.decode.torch_engine import UNSEEN, Network, lay_out_network, stacked
from sixfold.models.decoder_only import DecoderOnly
from sixfold.nn.config import BlockConfig
from sixfold.nn.layout import LayerWeights, NormWeights, final_norm_weights, layers_of
from sixfold.nn.positions import rotations, turned

BLOCK = 64  # tokens per block


@dataclass(frozen=True)
class Block:
    """Keys and values of consecutive tokens in all layers; unwritten slots are zero."""

    keys: Tensor  # (layers, K, D, BLOCK)
    values: Tensor  # (layers, K, BLOCK, D)

    def copy(self) -> Block:
        """Return a copy for a context of its own."""
        return Block(self.keys.clone(), self.values.clone())


@dataclass(frozen=True)
class Span:
    """Consecutive slots of a block and the rows of the new tokens that go there."""

    block: Block
    slots: slice
    rows: slice

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Write the keys and values (K, n, D) of new tokens to their slots."""
        self.block.keys[layer, :, :, self.slots] = keys[:, self.rows].transpose(1, 2)
        self.block.values[layer, :, self.slots] = values[:, self.rows]


class TorchContext:
    """The tokens that a model has read, with their keys and values."""

    def __init__(self, new_block: Callable[[], Block], tokens: Sequence[int], blocks: Sequence[Block]) -> None:
        self.new_block, self.tokens, self.blocks = new_block, [*tokens], [*blocks]

    def fork(self) -> Self:
        """Return another context with the same tokens, which shares the full blocks."""
        forked = type(self)(self.new_block, self.tokens, self.blocks)
        forked.own_last()
        return forked

    def cut(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        if length < len(self.tokens):
            del self.tokens[length:]
            self.own_last()

    def own_last(self) -> None:
        """Drop empty blocks, and copy the last one if it is not full, because it may be shared."""
        del self.blocks[-(-len(self.tokens) // BLOCK) :]
        if len(self.tokens) % BLOCK:
            self.blocks[-1] = self.blocks[-1].copy()

    def spans(self, count: int) -> list[Span]:
        """Make room for `count` tokens, and return where they go."""
        begin, end = len(self.tokens), len(self.tokens) + count
        while len(self.blocks) * BLOCK < end:
            self.blocks.append(self.new_block())
        edges = [begin, *range((begin // BLOCK + 1) * BLOCK, end, BLOCK), end]
        return [
            Span(
                self.blocks[low // BLOCK],
                slice(low % BLOCK, low % BLOCK + high - low),
                slice(low - begin, high - begin),
            )
            for low, high in pairwise(edges)
        ]


@dataclass(frozen=True)
class Reading:
    """New tokens of one context: their rows, where their keys go, and what each may attend to."""

    context: TorchContext
    rows: slice  # of the N
    spans: list[Span]
    mask: Tensor  # (n, P), UNSEEN at later tokens


@dataclass(frozen=True)
class ContextLayer:
    """One layer, laid out for few rows."""

    inputs: Matrix  # W^Q divided by √d_k, W^K and W^V
    inputs_bias: Tensor | None
    output: Matrix
    output_bias: Tensor | None
    attention_norm: NormWeights
    feed_forward: Network
    feed_forward_norm: NormWeights


def lay_out(weights: LayerWeights, config: BlockConfig, precision: Precision) -> ContextLayer:
    """Lay out a layer for reading tokens into contexts."""
    attention = weights.self_attention.divided()
    inputs, inputs_bias = stacked([attention.query, *attention.shared], precision)
    return ContextLayer(
        inputs=inputs,
        inputs_bias=inputs_bias,
        output=make_matrix(attention.output.weight, precision),
        output_bias=attention.output.bias,
        attention_norm=weights.self_attention_norm,
        feed_forward=lay_out_network(weights.feed_forward, config.activation, precision),
        feed_forward_norm=weights.feed_forward_norm,
    )


def position_tables(model: DecoderOnly) -> tuple[Tensor | None, Tensor | None]:
    """Return the position vectors (positions, d), or the rotations of queries and keys (2, positions, D/2)."""
    config, device = model.config, model.head.weight.device
    if config.positions == "rotary":
        return None, rotations(config.max_positions, config.head_widths[0], config.rotary_base).to(device)
    return model.stem.positions(0, config.max_positions).detach(), None


class TorchContexts:
    """A decoder-only model that reads tokens into contexts."""

    def __init__(self, model: DecoderOnly, precision: Precision = "float32") -> None:
        config = self.config = model.config
        self.vocabulary, self.max_positions = config.vocabulary, config.max_positions
        self.heads, self.key_value_heads = config.heads, config.key_value_heads or config.heads
        self.embedding, self.scale = model.stem.embedding.weight.detach(), model.stem.embedding.scale
        self.device = self.embedding.device
        self.projection = make_matrix(model.head.weight.detach(), precision)
        self.layers = [lay_out(layer, config, precision) for layer in layers_of(model.stack)]
        self.last_norm = final_norm_weights(model.stack)
        self.positions, self.turns = position_tables(model)

    def new_context(self) -> TorchContext:
        """Return a context without tokens."""
        return TorchContext(self.new_block, [], [])

    def new_block(self) -> Block:
        """Return an empty block."""
        shape, (d_k, d_v) = (len(self.layers), self.key_value_heads), self.config.head_widths
        return Block(self.embedding.new_zeros(*shape, d_k, BLOCK), self.embedding.new_zeros(*shape, BLOCK, d_v))

    @torch.inference_mode()
    def read(self, contexts: Sequence[Context], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append at least one token to each context; return the hidden states (N, d)."""
        readings = [*self.readings(contexts, tokens)]
        places = torch.cat([self.places(each) for each in readings])
        x = self.embed(torch.tensor([token for row in tokens for token in row], device=self.device), places)
        turns = None if self.turns is None else self.turns[:, places]
        for index, layer in enumerate(self.layers):
            x = self.attend(index, layer, x, readings, turns)
            x = self.feed_forward(layer, x)
        for reading, row in zip(readings, tokens, strict=True):
            reading.context.tokens.extend(row)
        return x if self.last_norm is None else self.last_norm(x)

    def readings(self, contexts: Sequence[Context], tokens: Sequence[Sequence[int]]) -> Iterator[Reading]:
        """Yield the tokens to read into each context, and make room for them."""
        begin = 0
        for context, row in zip(contexts, tokens, strict=True):
            assert isinstance(context, TorchContext), "a context of another engine"
            refuse_overflow(context, len(row), self.max_positions)
            spans, length = context.spans(len(row)), len(context.tokens)
            slots = torch.arange(len(context.blocks) * BLOCK, device=self.device)
            hidden = slots > slots[length : length + len(row), None]
            mask = self.embedding.new_zeros(hidden.shape).masked_fill_(hidden, UNSEEN)
            yield Reading(context, slice(begin, begin + len(row)), spans, mask)
            begin += len(row)

    def places(self, reading: Reading) -> Tensor:
        """Return the positions (n,) of new tokens."""
        begin, count = len(reading.context.tokens), reading.rows.stop - reading.rows.start
        return torch.arange(begin, begin + count, device=self.device)

    def embed(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Return the vectors (N, d) of tokens at these positions."""
        x = F.embedding(tokens, self.embedding) * self.scale
        return x if self.positions is None else x + self.positions[places]

    def attend(
        self, index: int, layer: ContextLayer, x: Tensor, readings: Sequence[Reading], turns: Tensor | None
    ) -> Tensor:
        """Apply the attention sublayer to x (N, d)."""
        y = layer.attention_norm(x) if self.config.norm == "pre" else x
        query, key, value = self.project(layer, y, turns)
        heads = torch.cat([self.attend_alone(index, each, query, key, value) for each in readings])
        x = layer.output(heads, x)
        x = x if layer.output_bias is None else x.add_(layer.output_bias)
        return x if self.config.norm == "pre" else layer.attention_norm(x)

    def project(self, layer: ContextLayer, y: Tensor, turns: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (H, N, D), keys and values (K, N, D) of y (N, d)."""
        d_k, d_v = self.config.head_widths
        counts, widths = (self.heads, self.key_value_heads, self.key_value_heads), (d_k, d_k, d_v)
        sizes = [count * width for count, width in zip(counts, widths, strict=True)]
        parts = layer.inputs(y, layer.inputs_bias).split(sizes, dim=1)
        query, key, value = (
            part.unflatten(1, (count, -1)).transpose(0, 1) for part, count in zip(parts, counts, strict=True)
        )
        return (query, key, value) if turns is None else (turned(query, turns), turned(key, turns), value)

    def attend_alone(self, index: int, reading: Reading, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Write a context's new keys and values, and return the attention output (n, H·D) of its new tokens."""
        for span in reading.spans:
            span.write(index, key[:, reading.rows], value[:, reading.rows])
        grouped = query[:, reading.rows].unflatten(0, (self.key_value_heads, -1))  # (K, G, n, D)
        group, count = grouped.shape[1:3]
        mask = reading.mask.repeat(group, 1)
        seen = seen_by(grouped.flatten(1, 2), mask, index, reading.context.blocks)
        return seen.unflatten(1, (group, count)).permute(2, 0, 1, 3).flatten(1)

    def feed_forward(self, layer: ContextLayer, x: Tensor) -> Tensor:
        """Apply the feed-forward sublayer to x (N, d)."""
        if self.config.norm == "pre":
            return layer.feed_forward(layer.feed_forward_norm(x), x)
        return layer.feed_forward_norm(layer.feed_forward(x, x))

    @torch.inference_mode()
    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Return the log-probabilities (R, V) of the next token."""
        return self.projection(hidden).log_softmax(dim=-1)


def seen_by(query: Tensor, mask: Tensor, layer: int, blocks: Sequence[Block]) -> Tensor:
    """Return softmax(QKᵀ + mask)V (K, R, D) of queries (K, R, D), summed block by block."""
    rows, missing = query.size(1), max(0, FEWEST_ROWS - query.size(1))
    query, mask = F.pad(query, [0, 0, 0, missing]), F.pad(mask, [0, 0, 0, missing])
    scores = torch.cat([torch.bmm(query, block.keys[layer]) for block in blocks], dim=2) + mask
    weights = (scores - scores.amax(dim=2, keepdim=True)).exp_()
    result, total = torch.zeros((), device=query.device), torch.zeros((), device=query.device)
    for part, block in zip(weights.split(BLOCK, dim=2), blocks, strict=True):
        result = result + torch.bmm(part, block.values[layer])
        total = total + part.sum(dim=2, keepdim=True)
    return (result / total)[:, :rows]
