"""Engines: a model laid out for decoding. A search only sees the stepper that an engine starts.

`torch_engine.py` computes on any device and is the reference; `kernel_engine.py` is faster, for what the compiled
kernels support.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from sixfold.decode.extensions import best_of, forbid
from sixfold.models.ensemble import average

if TYPE_CHECKING:
    from torch import Tensor

    from sixfold.decode.matrices import Precision
    from sixfold.decode.search import Extensions, Forbidden, Stepper
    from sixfold.models.encoder_decoder import EncoderDecoder
    from sixfold.text import SpecialIds

LENGTH_STEP = 8  # source lengths are padded to multiples of this


class Engine(Protocol):
    """A model ready to decode."""

    is_padded: bool  # the sources of a batch must have the same padded length

    def start(self, sources: Sequence[list[int]], prompts: Sequence[list[int]]) -> Stepper:
        """Read the sources, end tokens included, and the prompts (of equal length) except their last tokens.

        The first step of the stepper takes these last tokens.
        """


def padded_length(length: int) -> int:
    """Return the padded length of a source of `length` tokens, end token included."""
    return -(-length // LENGTH_STEP) * LENGTH_STEP


def open_engine(models: Sequence[EncoderDecoder], special: SpecialIds, precision: Precision = "float32") -> Engine:
    """Lay out a model, or an ensemble, for decoding."""
    engines = [lay_out(model, special, precision) for model in models]
    return engines[0] if len(engines) == 1 else EnsembleEngine(engines, special.eos)


def lay_out(model: EncoderDecoder, special: SpecialIds, precision: Precision) -> Engine:
    """Lay out one model, on the compiled kernels if they support it."""
    from sixfold.decode.kernel_engine import KernelEngine
    from sixfold.decode.torch_engine import TorchEngine
    from sixfold.kernels.decoding import find_kernels

    if KernelEngine.supports(model.config, model.head.weight):
        kernels = find_kernels().kernels
        if kernels is not None:
            return KernelEngine(model, special, precision, kernels)
    return TorchEngine(model, special, precision)


def prefill(stepper: Stepper, prompts: Sequence[list[int]]) -> list[float]:
    """Feed a stepper the prompts except their last tokens; return each log-probability after the first token."""
    totals = [0.0] * len(prompts)
    for fed, following in pairwise(zip(*prompts, strict=True)):
        log_probs = stepper.step([*fed])
        totals = [total + float(log_probs[row, following[row]]) for row, total in enumerate(totals)]
    return totals


class EnsembleEngine:
    """An ensemble of engines, whose probabilities are averaged."""

    def __init__(self, engines: Sequence[Engine], eos: int) -> None:
        self.engines, self.eos = engines, eos
        self.is_padded = any(engine.is_padded for engine in engines)

    def start(self, sources: Sequence[list[int]], prompts: Sequence[list[int]]) -> EnsembleStepper:
        """Start every engine with the sources and the prompts."""
        first_tokens = [prompt[:1] for prompt in prompts]
        stepper = EnsembleStepper([engine.start(sources, first_tokens) for engine in self.engines], self.eos)
        stepper.prompt_log_probabilities = prefill(stepper, prompts)
        return stepper


class EnsembleStepper:
    """The steppers of an ensemble as one."""

    def __init__(self, steppers: Sequence[Stepper], eos: int) -> None:
        self.steppers, self.eos = steppers, eos
        self.prompt_log_probabilities: list[float] = []

    def step(self, tokens: list[int], forbidden: Forbidden = None) -> Tensor:
        """Return the averaged log-probabilities (R, V) of the next token."""
        log_probs = average((stepper.step(tokens) for stepper in self.steppers), len(self.steppers))
        if forbidden is not None:
            forbid(log_probs, forbidden)
        return log_probs

    def extend(
        self, tokens: list[int], scores: list[list[float]], count: int, forbidden: Forbidden = None
    ) -> Extensions:
        """Return the best extensions under the averaged probabilities."""
        log_probs = self.step(tokens, forbidden)
        return best_of([(log_probs, log_probs.new_zeros(len(tokens)))], scores, count, self.eos)

    def select(self, sentences: list[int] | None, rows: list[int]) -> None:
        """Keep these sentences and rows of every model."""
        for stepper in self.steppers:
            stepper.select(sentences, rows)
