"""The engine on torch: a Transformer's weights laid out for decoding, and steps of few, large operations.

It computes the same as `EncoderDecoder.forward`, but differently, because a decoding step has few rows and every
operation costs some microseconds, however small it is:

- The hypotheses of a sentence are queries over one memory, which is projected once, laid out for the product, and
  never copied.
- Keys and values of the target stay where they were written. All hypotheses of a sentence attend to all its
  slots, and a mask selects the slots of a hypothesis's own past, so reordering hypotheses only reorders the mask.
- The softmax over the vocabulary is never materialised: the search needs the logits and the log of their sum.

A sentence gives bit-identical results alone and in any batch. All sentences of a batch have the same padded
length, which depends on the sentence alone (`padded_length`), and products are arranged so that a row's result
does not depend on the number of rows (`decode/matrices.py`).

Shapes: S sentences, W hypotheses of each, R = S·W rows, H heads, D head width, M source positions, P slots: one
for each hypothesis of each step so far; d = d_model, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sixfold.data.batches import pad
from sixfold.decode.engine import padded_length, prefill
from sixfold.decode.extensions import BLOCK, best_of, log_probabilities, without
from sixfold.decode.matrices import Matrix, Precision, make_matrix
from sixfold.decode.search import NEVER, Extensions, Forbidden
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.nn import BlockConfig, local_mask
from sixfold.nn.config import Activation
from sixfold.nn.feed_forward import ACTIVATIONS
from sixfold.nn.layout import (
    AttentionWeights,
    FeedForwardWeights,
    LayerWeights,
    Linear,
    NormWeights,
    final_norm_weights,
    layers_of,
)
from sixfold.text import SpecialIds

UNSEEN = -1e30  # in a mask: far below any score, but finite, so that a fully masked query does not give NaN
SLOTS = 64  # initial capacity for keys and values
PIECE = 1 << 19  # logits computed at once
SAFE_LOGIT = 60.0  # two million times its exp is finite in float32, and exp of its negative is not 0


# Weights, laid out


@dataclass(frozen=True)
class Projections:
    """The matrices of an attention, with every head padded to the widest and W^Q divided by √d_k.

    In self-attention, `inputs` is W^Q, W^K and W^V as one matrix; in cross-attention it is W^Q, and `memory` is
    the other two.
    """

    inputs: Matrix  # (d, 3·H·D) or (d, H·D)
    inputs_bias: Tensor | None
    memory: Matrix | None  # (d, 2·H·D)
    memory_bias: Tensor | None
    output: Matrix  # (H·D, d)
    output_bias: Tensor | None


@dataclass(frozen=True)
class Network:
    """The matrices of the feed-forward network."""

    inner: Matrix
    inner_bias: Tensor | None
    gate: Matrix | None
    gate_bias: Tensor | None
    outer: Matrix
    outer_bias: Tensor | None
    activation: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor, add: Tensor) -> Tensor:
        """Return the network's output for rows x, plus `add`."""
        hidden = self.activation(self.inner(x, self.inner_bias))
        if self.gate is not None:
            hidden = hidden * self.gate(x, self.gate_bias)
        result = self.outer(hidden, add)
        return result if self.outer_bias is None else result.add_(self.outer_bias)


@dataclass(frozen=True)
class EngineLayer:
    """One layer, laid out for few rows."""

    attention: Projections
    attention_norm: NormWeights
    cross_attention: Projections | None
    cross_attention_norm: NormWeights | None
    feed_forward: Network
    feed_forward_norm: NormWeights


def lay_out(weights: LayerWeights, width: int, activation: Activation, precision: Precision) -> EngineLayer:
    """Lay out a layer for decoding."""
    cross = weights.cross_attention
    return EngineLayer(
        attention=lay_out_attention(weights.self_attention, 3, width, precision),
        attention_norm=weights.self_attention_norm,
        cross_attention=None if cross is None else lay_out_attention(cross, 1, width, precision),
        cross_attention_norm=weights.cross_attention_norm,
        feed_forward=lay_out_network(weights.feed_forward, activation, precision),
        feed_forward_norm=weights.feed_forward_norm,
    )


def lay_out_attention(weights: AttentionWeights, num_inputs: int, width: int, precision: Precision) -> Projections:
    """Lay out an attention whose first `num_inputs` projections of Q, K and V have the same input."""
    scaled = weights.divided().widened(width)
    parts = [scaled.query, scaled.key, scaled.value]
    inputs, inputs_bias = stacked(parts[:num_inputs], precision)
    memory, memory_bias = stacked(parts[num_inputs:], precision) if num_inputs < 3 else (None, None)
    output = make_matrix(scaled.output.weight, precision)
    return Projections(inputs, inputs_bias, memory, memory_bias, output, scaled.output.bias)


def stacked(parts: Sequence[Linear], precision: Precision) -> tuple[Matrix, Tensor | None]:
    """Stack several projections of the same input to one."""
    biases = [part.bias for part in parts if part.bias is not None]
    matrix = make_matrix(torch.cat([part.weight for part in parts]), precision)
    return matrix, torch.cat(biases) if biases else None


def lay_out_network(weights: FeedForwardWeights, activation: Activation, precision: Precision) -> Network:
    """Lay out the feed-forward network."""
    gate = weights.gate
    return Network(
        inner=make_matrix(weights.inner.weight, precision),
        inner_bias=weights.inner.bias,
        gate=None if gate is None else make_matrix(gate.weight, precision),
        gate_bias=None if gate is None else gate.bias,
        outer=make_matrix(weights.outer.weight, precision),
        outer_bias=weights.outer.bias,
        activation=ACTIVATIONS[activation],
    )


# The engine


class TorchLayers:
    """What layers do to rows of S texts of one length M."""

    def __init__(self, config: BlockConfig) -> None:
        self.is_pre_norm = config.norm == "pre"
        self.heads, self.width = config.heads, max(config.head_widths)  # H and D

    def encode_rows(self, layers: Sequence[EngineLayer], x: Tensor, mask: Tensor) -> Tensor:
        """Apply the layers of an encoder to rows (S·M, d); the mask (S·H, 1 or M, M) is added to scores."""
        for layer in layers:
            y = layer.attention_norm(x) if self.is_pre_norm else x
            x = self.attend_to_source(layer.attention, y, x, mask)
            x = x if self.is_pre_norm else layer.attention_norm(x)
            x = self.feed_forward(layer, x)
        return x

    def attend_to_source(self, weights: Projections, y: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """Return x (S·M, d) plus the self-attention of y (S·M, d)."""
        length = mask.size(2)
        parts = weights.inputs(y, weights.inputs_bias).view(-1, length, 3, self.heads, self.width)
        query, key, value = parts.permute(2, 0, 3, 1, 4).flatten(1, 2)  # (S·H, M, D)
        shares = torch.baddbmm(mask, query, key.transpose(1, 2)).softmax(dim=-1)
        return self.join_heads(weights, torch.bmm(shares, value), x)

    def join_heads(self, weights: Projections, heads: Tensor, x: Tensor) -> Tensor:
        """Return x (rows, d) plus the heads (S·H, positions, D) projected by W^O."""
        by_row = heads.view(-1, self.heads, *heads.shape[1:]).transpose(1, 2).reshape(x.size(0), -1)
        result = weights.output(by_row, x)
        return result if weights.output_bias is None else result.add_(weights.output_bias)

    def feed_forward(self, layer: EngineLayer, x: Tensor) -> Tensor:
        """Apply the feed-forward sublayer of a layer."""
        if self.is_pre_norm:
            return layer.feed_forward(layer.feed_forward_norm(x), x)
        return layer.feed_forward_norm(layer.feed_forward(x, x))


class TorchEngine(TorchLayers):
    """A model that decodes on torch, with any configuration and on any device."""

    is_padded = True

    def __init__(self, model: EncoderDecoder, special: SpecialIds, precision: Precision = "float32") -> None:
        super().__init__(model.config)
        self.model, self.special = model, special
        self.embedding = model.head.weight.detach()
        self.vocabulary, self.d_model = self.embedding.shape
        surplus = -self.vocabulary % BLOCK
        self.projection = make_matrix(F.pad(self.embedding, [0, 0, 0, surplus]), precision)
        form = (self.width, model.config.activation, precision)
        self.encoder_layers = [lay_out(layer, *form) for layer in layers_of(model.encoder)]
        self.decoder_layers = [lay_out(layer, *form) for layer in layers_of(model.decoder)]
        self.encoder_norm, self.decoder_norm = final_norm_weights(model.encoder), final_norm_weights(model.decoder)
        last_norm = self.decoder_norm or self.decoder_layers[-1].feed_forward_norm
        self.can_overflow = largest_logit(self.embedding, last_norm) > SAFE_LOGIT
        never_chosen = [*special.never_chosen, *range(self.vocabulary, self.vocabulary + surplus)]
        self.never_chosen = torch.tensor(never_chosen, device=self.embedding.device)

    @torch.inference_mode()
    def start(self, sources: Sequence[list[int]], prompts: Sequence[list[int]]) -> TorchStepper:
        """Read the sources and the prompts."""
        stepper = TorchStepper(self, self.padded(sources))
        stepper.prompt_log_probabilities = prefill(stepper, prompts)
        return stepper

    def padded(self, sources: Sequence[list[int]]) -> Tensor:
        """Return the sources (S, M), padded to their `padded_length`."""
        rows = pad(sources, self.special.pad)
        surplus = padded_length(rows.shape[1]) - rows.shape[1]
        source = F.pad(torch.from_numpy(rows), [0, surplus], value=self.special.pad)
        return source.to(self.embedding.device)

    def encode(self, source: Tensor) -> Tensor:
        """Return the memory (S·M, d) of the source tokens (S, M)."""
        positions = self.model.source.positions(0, source.size(1))
        x = (self.model.source.embedding(source) + positions).flatten(0, 1)
        mask = self.source_mask(source).repeat_interleave(self.heads, dim=0)
        x = self.encode_rows(self.encoder_layers, x, mask)
        return x if self.encoder_norm is None else self.encoder_norm(x)

    def source_mask(self, source: Tensor) -> Tensor:
        """Return the additive mask of the encoder's scores (S, 1 or M, M): UNSEEN where a query may not attend."""
        offsets, width = self.padding_offsets(source), self.model.config.attention_width
        if width:
            local = local_mask(source.size(1), width, source.device)
            offsets = offsets.masked_fill(~local, UNSEEN)
        return offsets

    def padding_offsets(self, source: Tensor) -> Tensor:
        """Return an additive mask of scores (S, 1, M): UNSEEN at padding."""
        return self.embedding.new_zeros(source.shape).masked_fill_(source == self.special.pad, UNSEEN)[:, None]

    def read_memory(self, weights: Projections, memory: Tensor, sentences: int) -> Tensor:
        """Return keys and values (2, S, H, M, D) of the memory (S·M, d)."""
        assert weights.memory is not None
        parts = weights.memory(memory, weights.memory_bias).view(sentences, -1, 2, self.heads, self.width)
        return parts.permute(2, 0, 3, 1, 4)

    def logits(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (R, V padded) and the log of their sum (R,); special tokens are never chosen."""
        logits = self.projection(hidden)
        of_tokens = logits[:, : self.vocabulary]
        log_total = of_tokens.logsumexp(dim=1) if self.can_overflow else of_tokens.exp().sum(dim=1).log_()
        logits.index_fill_(1, self.never_chosen, NEVER)
        return logits, log_total


def largest_logit(embedding: Tensor, norm: NormWeights) -> float:
    """Return an upper bound of all logits: a normalised vector has at most the norm √d."""
    spread = math.sqrt(embedding.size(1)) * torch.linalg.vector_norm(embedding * norm.weight, dim=1)
    return float((spread if norm.bias is None else spread + (embedding @ norm.bias).abs()).max())


class TorchStepper:
    """The decoding of one batch, for a search."""

    def __init__(self, engine: TorchEngine, source: Tensor) -> None:
        self.engine = engine
        self.sentences = source.size(0)
        memory = engine.encode(source)
        parts = [layer.cross_attention for layer in engine.decoder_layers if layer.cross_attention is not None]
        keys, values = torch.stack([engine.read_memory(part, memory, self.sentences) for part in parts], dim=1)
        self.memory_keys = keys.transpose(3, 4).contiguous()  # (L, S, H, D, M)
        self.memory_values = values.contiguous()  # (L, S, H, M, D)
        mask = engine.padding_offsets(source)[:, None].expand(-1, engine.heads, -1, -1)
        self.memory_mask = mask.contiguous()  # (S, H, 1, M)
        self.cache = memory.new_empty(len(parts), 2, self.sentences, engine.heads, SLOTS, engine.width)
        self.begins: list[int] = []  # first slot of each step
        self.used = 0  # slots
        self.new_slots = memory.new_empty(0)  # (R, W): the part of the mask that a step adds
        self.prompt_log_probabilities: list[float] = []
        self.mask: Tensor | None = None  # (R, used), UNSEEN at other hypotheses' slots; None: no others

    @torch.inference_mode()
    def step(self, tokens: list[int], forbidden: Forbidden = None) -> Tensor:
        """Return the log-probabilities (R, V) of the next token."""
        return log_probabilities(without(self.logits(tokens), forbidden), self.engine.vocabulary)

    @torch.inference_mode()
    def extend(
        self, tokens: list[int], scores: list[list[float]], count: int, forbidden: Forbidden = None
    ) -> Extensions:
        """Return the best extensions of each sentence."""
        return best_of(without(self.logits(tokens), forbidden), scores, count, self.engine.special.eos)

    def logits(self, tokens: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the logits (rows, V and a surplus) and the log of their sum (rows,), some sentences at a time."""
        width = len(tokens) // self.sentences
        sentences = max(1, PIECE // (self.engine.vocabulary * width))
        newest = torch.tensor(tokens, device=self.engine.embedding.device)
        for hidden in self.hidden(newest).split(sentences * width):
            yield self.engine.logits(hidden)

    def hidden(self, tokens: Tensor) -> Tensor:
        """Return the decoder's output (R, d) for the newest tokens, and store their keys and values."""
        engine, end = self.engine, self.used + tokens.numel() // self.sentences
        x = engine.model.target.positions(len(self.begins), 1).add(
            F.embedding(tokens, engine.embedding), alpha=engine.model.target.embedding.scale
        )
        self.reserve(end)
        mask, first = self.own_slots(end), self.first_seen()
        new = self.cache[..., self.used : end, :].unbind(0)  # (2, S, H, W, D)
        seen = self.cache[..., first:end, :].flatten(2, 3).unbind(0)  # (2, S·H, P, D)
        memory_keys, memory_values = self.memory_keys.flatten(1, 2), self.memory_values.flatten(1, 2)
        memory_mask = self.memory_mask.flatten(0, 1)
        for index, layer in enumerate(engine.decoder_layers):
            x = self.attend_to_past(layer, x, new[index], seen[index], mask)
            x = self.attend_to_memory(layer, x, memory_keys[index], memory_values[index], memory_mask)
            x = engine.feed_forward(layer, x)
        self.begins.append(self.used)
        self.used = end
        return x if engine.decoder_norm is None else engine.decoder_norm(x)

    def reserve(self, slots: int) -> None:
        """Make room for slots, doubling the capacity when it runs out."""
        before = self.cache.shape
        if slots > before[4]:
            larger = self.cache.new_empty(*before[:4], slots + before[4], before[5])
            larger[..., : self.used, :] = self.cache[..., : self.used, :]
            self.cache = larger

    def first_seen(self) -> int:
        """Return the first slot that the newest position attends to."""
        width = self.engine.model.config.attention_width
        return self.begins[-width] if width and len(self.begins) >= width else 0

    def own_slots(self, end: int) -> Tensor | None:
        """Add the new slots to the mask; return it in the shape of the scores (S·H, W, P)."""
        width = end - self.used
        if self.mask is None and width == 1:
            return None
        if self.mask is None:
            self.mask = self.cache.new_zeros(self.sentences * width, self.used)
        if self.new_slots.shape != (self.sentences * width, width):
            own = torch.eye(width, dtype=torch.bool, device=self.mask.device)
            self.new_slots = self.mask.new_zeros(width, width).masked_fill_(~own, UNSEEN).repeat(self.sentences, 1)
        self.mask = torch.cat([self.mask, self.new_slots], dim=1)
        mask = self.mask.view(self.sentences, 1, width, end)[..., self.first_seen() :]
        return mask.expand(-1, self.engine.heads, -1, -1).flatten(0, 1)

    def attend_to_past(
        self, layer: EngineLayer, x: Tensor, new: Tensor, seen: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Apply self-attention: write keys and values to their slots, then attend to all slots."""
        engine, weights = self.engine, layer.attention
        y = layer.attention_norm(x) if engine.is_pre_norm else x
        projected = weights.inputs(y, weights.inputs_bias)
        parts = projected.view(self.sentences, -1, 3, engine.heads, engine.width).permute(2, 0, 3, 1, 4)
        new.copy_(parts[1:])
        query, key, value = parts[0].flatten(0, 1), seen[0].transpose(1, 2), seen[1]  # (S·H, …)
        scores = torch.bmm(query, key) if mask is None else torch.baddbmm(mask, query, key)
        x = engine.join_heads(weights, torch.bmm(scores.softmax(dim=-1), value), x)
        return x if engine.is_pre_norm else layer.attention_norm(x)

    def attend_to_memory(
        self, layer: EngineLayer, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor
    ) -> Tensor:
        """Apply cross-attention: the hypotheses of a sentence are W queries over its one memory."""
        engine, weights = self.engine, layer.cross_attention
        assert weights is not None
        assert layer.cross_attention_norm is not None
        y = layer.cross_attention_norm(x) if engine.is_pre_norm else x
        projected = weights.inputs(y, weights.inputs_bias).view(self.sentences, -1, engine.heads, engine.width)
        query = projected.transpose(1, 2).flatten(0, 1)  # (S·H, W, D)
        shares = torch.baddbmm(mask, query, keys).softmax(dim=-1)
        x = engine.join_heads(weights, torch.bmm(shares, values), x)
        return x if engine.is_pre_norm else layer.cross_attention_norm(x)

    @torch.inference_mode()
    def select(self, sentences: list[int] | None, rows: list[int]) -> None:
        """Keep these sentences (None: all) and these rows, in this order."""
        if self.mask is not None:
            self.mask = self.mask.index_select(0, torch.tensor(rows, device=self.mask.device))
        if sentences is not None:
            self.memory_keys = kept(self.memory_keys, 1, sentences)
            self.memory_values = kept(self.memory_values, 1, sentences)
            self.memory_mask = kept(self.memory_mask, 0, sentences)
            self.cache = kept(self.cache, 2, sentences)
            self.sentences = len(sentences)


def kept(x: Tensor, dim: int, order: list[int]) -> Tensor:
    """Return these entries of a dimension, in this order.

    If entries only fill gaps, as `search.closed_up` arranges, just these are moved, in place.
    """
    moved = [(place, entry) for place, entry in enumerate(order) if place != entry]
    if any(entry < len(order) for _, entry in moved):
        return x.index_select(dim, torch.tensor(order, device=x.device))
    for place, entry in moved:
        x.select(dim, place).copy_(x.select(dim, entry))
    return x.narrow(dim, 0, len(order))
