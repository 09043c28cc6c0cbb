"""The engine on compiled kernels: computes the same as `decode/torch_engine.py`, in one call per step.

Nothing is padded or moved. The memory of a batch is the tokens of its sentences one after the other; keys and
values of the target stay in the block that their step filled; a row's history says which row of each earlier step
it continues. When sentences leave or hypotheses are reordered, only these lists change.

Shapes: S sentences, W hypotheses of each, R = S·W rows, N source tokens of all sentences, T steps, V vocabulary,
C best extensions of each sentence; d = d_model and h = width of all heads, both padded to whole panels.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sixfold.decode.engine import Engine, padded_length, prefill
from sixfold.decode.extensions import best_of, log_probabilities
from sixfold.decode.matrices import Precision
from sixfold.decode.packing import Packing
from sixfold.decode.search import Extensions, Forbidden
from sixfold.decode.torch_engine import PIECE, TorchEngine
from sixfold.kernels.decoding import (
    AttentionStructure,
    Kernels,
    LayerStructure,
    ModelStructure,
    PredictionStructure,
    SourceStructure,
    StepStructure,
)
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.nn.layout import (
    AttentionWeights,
    LayerWeights,
    Linear,
    NormWeights,
    final_norm_weights,
    layers_of,
)
from sixfold.text import SpecialIds

Number = TypeVar("Number", int, float)
POSITIONS = 64  # initial capacity
TRIAL_SOURCES = [[5, 6, 7, 8, 9, 4, 2], [11, 12, 2]]


class LayerPacking(Packing):
    """Packs the layers of encoders and decoders."""

    def attention(self, weights: AttentionWeights, width: int, norm: NormWeights) -> AttentionStructure:
        """Pack an attention, with every head padded to a width and W^Q divided by √d_k."""
        scaled = weights.divided().widened(width)
        query, key, value = (self.whole_panels(part) for part in (scaled.query, scaled.key, scaled.value))
        output = F.pad(scaled.output.weight, [0, -scaled.output.weight.size(1) % self.panel])
        biases = None if key.bias is None or value.bias is None else torch.cat([key.bias, value.bias])
        return AttentionStructure(
            self.linear(query),
            self.matrix(torch.cat([key.weight, value.weight]), biases),
            self.matrix(output, scaled.output.bias),
            self.norm(norm),
        )

    def whole_panels(self, part: Linear) -> Linear:
        """Pad the outputs of a projection (H·D, …) to (h, …)."""
        missing = -part.weight.size(0) % self.panel
        bias = None if part.bias is None else F.pad(part.bias, [0, missing])
        return Linear(F.pad(part.weight, [0, 0, 0, missing]), bias)

    def layer(self, weights: LayerWeights, width: int) -> LayerStructure:
        """Pack a layer of the encoder or the decoder."""
        packed = LayerStructure()
        packed.past = self.attention(weights.self_attention, width, weights.self_attention_norm)
        if weights.cross_attention is not None and weights.cross_attention_norm is not None:
            packed.source = self.attention(weights.cross_attention, width, weights.cross_attention_norm)
        network = weights.feed_forward
        packed.inner = self.linear(network.inner)
        packed.outer = self.linear(network.outer)
        packed.norm = self.norm(weights.feed_forward_norm)
        return packed


class KernelEngine:
    """A model that decodes with the compiled kernels."""

    is_padded = False  # the sentences of a batch may have any lengths

    def __init__(self, model: EncoderDecoder, special: SpecialIds, precision: Precision, kernels: Kernels) -> None:
        self.model, self.special, self.kernels = model, special, kernels
        self.never_chosen = torch.tensor(special.never_chosen)
        self.packing = packing = LayerPacking(kernels.panel, precision)
        config = model.config
        self.vocabulary, d_model = model.head.weight.shape
        width = max(config.head_widths)
        width += -width % kernels.lanes
        self.encoder = layers([packing.layer(each, width) for each in layers_of(model.encoder)])
        self.decoder = layers([packing.layer(each, width) for each in layers_of(model.decoder)])
        self.structure = ModelStructure(
            encoder=ctypes.addressof(self.encoder),
            decoder=ctypes.addressof(self.decoder),
            encoder_norm=packing.norm(final_norm_weights(model.encoder)),
            decoder_norm=packing.norm(final_norm_weights(model.decoder)),
            projection=packing.projection(model.head.weight),
            embedding=packing.keep(packing.padded(model.head.weight.detach())),
            embedding_scale=model.target.embedding.scale,
            is_pre_norm=config.norm == "pre",
            is_int8=precision == "int8",
            encoder_layers=len(self.encoder),
            decoder_layers=len(self.decoder),
            d_model=d_model,
            padded_d_model=d_model + -d_model % kernels.panel,
            d_ff=self.decoder[0].inner.outputs,
            heads=config.heads,
            head_width=width,
            all_heads=self.decoder[0].past.query.outputs,
            vocabulary=self.vocabulary,
            attention_width=config.attention_width,
        )
        self.address = ctypes.addressof(self.structure)
        self.positions: dict[int, int] = {}  # addresses of the position vectors

    @staticmethod
    def supports(config: EncoderDecoderConfig, weight: Tensor) -> bool:
        """Return whether the kernels support a model: the paper's layers, in float32 on a CPU."""
        is_plain = config.norm_kind == "layer" and config.activation == "relu" and not config.gated
        return is_plain and weight.device.type == "cpu" and weight.dtype == torch.float32

    @torch.inference_mode()
    def start(self, sources: Sequence[list[int]], prompts: Sequence[list[int]]) -> KernelStepper:
        """Read the sources and the prompts."""
        stepper = KernelStepper(self, sources)
        stepper.prompt_log_probabilities = prefill(stepper, prompts)
        return stepper

    def position(self, step: int) -> int:
        """Return the address of a position vector."""
        if step not in self.positions:
            vector = self.model.target.positions(step, 1).detach()
            self.positions[step] = self.packing.keep(self.packing.padded(vector))
        return self.positions[step]

    def prediction(self) -> PredictionStructure:
        """Return the arguments for predicting the next token, without the rows."""
        never = self.never_chosen
        return PredictionStructure(
            never_chosen=never.data_ptr(), num_never_chosen=never.numel(), eos=self.special.eos
        )

    def room(self, rows: int, positions: int) -> Tensor:
        """Return working memory for the kernels."""
        return torch.empty(self.kernels.room_for(self.address, rows, positions), dtype=torch.uint8)


def unfilled(*shape: int) -> Tensor:
    """Return an uninitialised float32 tensor."""
    return torch.empty(shape, dtype=torch.float32)


def floats(count: int) -> array[float]:
    """Return an array for this many floats."""
    return array("f", bytes(4 * count))


def integers(count: int) -> array[int]:
    """Return an array for this many integers."""
    return array("q", bytes(8 * count))


def address(numbers: array[Number]) -> int:
    """Return the address of an array."""
    return numbers.buffer_info()[0]


def layers(structures: list[LayerStructure]) -> ctypes.Array[LayerStructure]:
    """Return layers as one C array."""
    return (LayerStructure * len(structures))(*structures)


class ForbiddenTokens:
    """The tokens that may not follow each row, in arrays for the kernels that this object keeps alive."""

    def __init__(self, forbidden: Forbidden) -> None:
        self.addresses: tuple[int | None, ...] = (None, None, None)  # of tokens, begins and ends
        if forbidden is not None:
            self.tokens = np.concatenate(forbidden)
            self.ends = np.cumsum([len(each) for each in forbidden])
            self.begins = np.concatenate([[0], self.ends[:-1]])
            self.addresses = tuple(each.ctypes.data for each in (self.tokens, self.begins, self.ends))


class Best:
    """The result of a step: the best `count` extensions of each sentence, and each row's end."""

    def __init__(self, sentences: int, rows: int, count: int) -> None:
        self.count, extensions = count, sentences * count
        self.scores, self.parents, self.tokens = floats(extensions), integers(extensions), integers(extensions)
        self.log_totals, self.ends, self.most_probable = floats(rows), floats(rows), integers(rows)

    def tell(self, arguments: PredictionStructure) -> None:
        """Set where a call writes the result."""
        arguments.count, arguments.log_totals = self.count, address(self.log_totals)
        arguments.scores, arguments.parents = address(self.scores), address(self.parents)
        arguments.tokens, arguments.most_probable = address(self.tokens), address(self.most_probable)
        arguments.ends = address(self.ends)

    def extensions(self) -> Extensions:
        """Return the result for the search."""
        columns = self.scores.tolist(), self.parents.tolist(), self.tokens.tolist()
        return Extensions(*columns, self.ends.tolist(), self.most_probable.tolist())


class KernelStepper:
    """The decoding of one batch, for a search.

    With a small model a step takes only about 100 µs, so arguments are kept between steps: `arrange` sets those
    that depend on the rows, and a step only those that change.
    """

    def __init__(self, engine: KernelEngine, sources: Sequence[list[int]]) -> None:
        self.engine = engine
        shape = engine.structure
        lengths = [len(source) for source in sources]
        self.lengths = torch.tensor(lengths)  # (S,)
        self.begins = torch.tensor([0, *accumulate(lengths[:-1])])  # (S,), in the memory
        tokens = torch.tensor([*chain(*sources)])  # (N,)
        self.longest = padded_length(max(lengths))
        self.prompt_log_probabilities: list[float] = []
        self.memory = unfilled(shape.decoder_layers, tokens.numel(), 2 * shape.all_heads)
        self.encode(tokens)
        self.blocks: list[Tensor] = []  # of each step: keys and values (layers, R, 2h)
        self.addresses, self.block_rows = array("Q"), array("q")
        self.history = torch.empty(len(sources), POSITIONS, dtype=torch.long)  # (R, room for T)
        self.work = torch.empty(0, dtype=torch.uint8)
        self.hidden_rows = unfilled(0, shape.padded_d_model)  # (R or more, d)
        self.newest = StepStructure(memory=self.memory.data_ptr(), memory_rows=tokens.numel())
        self.prediction = engine.prediction()
        self.arrange()

    def encode(self, tokens: Tensor) -> None:
        """Fill the memory with the keys and values of the source tokens (N,)."""
        engine, shape = self.engine, self.engine.structure
        positions = engine.packing.padded(engine.model.source.positions(0, self.longest))
        x = unfilled(tokens.numel(), shape.padded_d_model)
        room = engine.room(tokens.numel(), self.longest)
        source = SourceStructure(
            tokens.data_ptr(),
            self.begins.data_ptr(),
            self.lengths.data_ptr(),
            positions.data_ptr(),
            self.lengths.numel(),
            tokens.numel(),
            self.longest,
            x.data_ptr(),
            self.memory.data_ptr(),
            room.data_ptr(),
        )
        engine.kernels.encode(engine.address, ctypes.addressof(source))

    def arrange(self) -> None:
        """Set the arguments for the current rows and the capacity of the history."""
        (rows, capacity), newest, prediction = self.history.shape, self.newest, self.prediction
        newest.rows, newest.capacity, newest.width = rows, capacity, rows // self.lengths.numel()
        newest.history, newest.longest = self.history.data_ptr(), max(self.longest, capacity)
        newest.begins, newest.lengths = self.begins.data_ptr(), self.lengths.data_ptr()
        self.make_room(rows, newest.longest)
        newest.x, newest.room = self.hidden_rows.data_ptr(), self.work.data_ptr()
        prediction.x, prediction.room = newest.x, newest.room
        prediction.rows, prediction.width = rows, newest.width

    def make_room(self, rows: int, positions: int) -> None:
        """Make room for this many rows and positions."""
        if self.hidden_rows.size(0) < rows:
            self.hidden_rows = unfilled(rows, self.engine.structure.padded_d_model)
        if self.work.numel() < (needed := self.engine.kernels.room_for(self.engine.address, rows, positions)):
            self.work = torch.empty(needed, dtype=torch.uint8)

    def read(self, tokens: list[int]) -> None:
        """Run the decoder on the newest tokens (R,), and write its output to the first R `hidden_rows`."""
        engine, newest, step = self.engine, self.newest, len(self.blocks)
        if step == newest.capacity:
            self.history = F.pad(self.history, [0, step])
            self.arrange()
        self.blocks.append(unfilled(engine.structure.decoder_layers, len(tokens), 2 * engine.structure.all_heads))
        self.addresses.append(self.blocks[-1].data_ptr())
        self.block_rows.append(len(tokens))
        given = array("q", tokens)
        newest.tokens, newest.position, newest.step = address(given), engine.position(step), step
        newest.blocks, newest.block_rows = address(self.addresses), address(self.block_rows)
        engine.kernels.decode(engine.address, ctypes.addressof(newest))

    def step(self, tokens: list[int], forbidden: Forbidden = None) -> Tensor:
        """Return the log-probabilities (R, V) of the next token."""
        return log_probabilities(self.logits(tokens, forbidden), self.engine.vocabulary)

    def extend(
        self, tokens: list[int], scores: list[list[float]], count: int, forbidden: Forbidden = None
    ) -> Extensions:
        """Return the best extensions of each sentence; torch finds them if they are many."""
        engine, rows = self.engine, len(tokens)
        if count > engine.kernels.most_extensions:
            return best_of(self.logits(tokens, forbidden), scores, count, engine.special.eos)
        self.read(tokens)
        arguments, best = self.prediction, Best(len(scores), rows, count)
        before, banned = array("f", chain.from_iterable(scores)), ForbiddenTokens(forbidden)
        best.tell(arguments)
        arguments.before = address(before)
        arguments.forbidden, arguments.next_forbidden, arguments.end_forbidden = banned.addresses
        engine.kernels.find_best(engine.address, ctypes.addressof(arguments))
        return best.extensions()

    def logits(self, tokens: list[int], forbidden: Forbidden = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the logits (rows, V padded) and the log of their sum (rows,), some sentences at a time."""
        self.read(tokens)
        width, begin = self.newest.width, 0
        sentences = max(1, PIECE // (self.engine.vocabulary * width))
        for hidden in self.hidden_rows[: len(tokens)].split(sentences * width):
            end = begin + hidden.size(0)
            yield self.logits_of(hidden, ForbiddenTokens(forbidden and forbidden[begin:end]))
            begin = end

    def logits_of(self, hidden: Tensor, banned: ForbiddenTokens) -> tuple[Tensor, Tensor]:
        """Return the logits of some rows and the log of their sum."""
        engine, rows = self.engine, hidden.size(0)
        logits, totals, ends = unfilled(rows, engine.structure.projection.outputs), *unfilled(2, rows)
        arguments = engine.prediction()
        arguments.x, arguments.rows, arguments.width = hidden.data_ptr(), rows, self.newest.width
        arguments.room, arguments.log_totals = self.newest.room, totals.data_ptr()
        arguments.ends = ends.data_ptr()
        arguments.forbidden, arguments.next_forbidden, arguments.end_forbidden = banned.addresses
        engine.kernels.write_logits(engine.address, ctypes.addressof(arguments), logits.data_ptr())
        return logits, totals

    def select(self, sentences: list[int] | None, rows: list[int]) -> None:
        """Keep these sentences (None: all) and these rows, in this order."""
        order = torch.tensor(rows)
        self.history = self.history.index_select(0, order)
        if sentences is not None:
            kept = order if sentences == rows else torch.tensor(sentences)  # the same if each sentence has one row
            self.begins, self.lengths = self.begins.index_select(0, kept), self.lengths.index_select(0, kept)
        self.arrange()


# The trial of a new library


@torch.inference_mode()
def try_out(path: str) -> None:
    """Fail unless a library computes what torch does; it may also take the whole process down."""
    kernels, special = Kernels(ctypes.CDLL(path)), SpecialIds()
    torch.manual_seed(1)
    for norm in ("pre", "post"):
        config = EncoderDecoderConfig(
            vocabulary=300, encoder_layers=2, decoder_layers=2, d_model=72, d_ff=200, heads=3, norm=norm
        )
        model = EncoderDecoder(config).eval()
        exact = trial_steps(TorchEngine(model, special))
        single = trial_steps(KernelEngine(model, special, "float32", kernels))
        coarse = trial_steps(KernelEngine(model, special, "int8", kernels))
        torch.testing.assert_close(single, exact, rtol=0, atol=1e-4)
        torch.testing.assert_close(coarse, exact, rtol=0, atol=0.3)


def trial_steps(engine: Engine) -> Tensor:
    """Return log-probabilities after steps with several hypotheses and some forbidden tokens."""
    begin = SpecialIds().bos
    stepper = engine.start(TRIAL_SOURCES, [[begin], [begin]])
    stepper.step([begin, begin])
    stepper.select(None, [0] * 9 + [1] * 9)
    forbidden = [np.array([5, 70 + row, 299]) for row in range(18)]
    steps = []
    for number in range(4):
        log_probs = stepper.step([row * 7 + number for row in range(18)], forbidden)
        steps.append(log_probs.clamp_min(-1e4))
        stepper.select(None, [row // 3 * 3 for row in range(18)])
    return torch.cat(steps)
