"""Contexts: what a decoder-only model has read, with the keys and values of it.

`torch_contexts.py` computes on any device and is the reference; the compiled kernels are faster, for what they
support. A row's numbers depend on its own context alone, to the bit: not on the other contexts that are read in
the same call, nor on how its tokens were divided among calls.

Shapes: N tokens of all contexts, R rows, V vocabulary, d = d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self

from sixfold.errors import RequestError

if TYPE_CHECKING:
    from torch import Tensor

    from sixfold.decode.matrices import Precision
    from sixfold.models.decoder_only import DecoderOnly
    from sixfold.text import SpecialIds


class Context(Protocol):
    """The tokens that a model has read, with their keys and values."""

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens, first to last."""

    def fork(self) -> Self:
        """Return another context that begins with the same tokens; what the two share is in memory once."""

    def cut(self, length: int) -> None:
        """Forget all but the first `length` tokens."""


class ContextEngine(Protocol):
    """A decoder-only model, ready to read tokens into contexts of its own."""

    vocabulary: int
    max_positions: int  # the most tokens of a context

    def new_context(self) -> Context:
        """Return a context without tokens."""

    def read(self, contexts: Sequence[Context], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append at least one token to each context; return the hidden states (N, d), context by context."""

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Return the log-probabilities (R, V) of the next token: the model's own, nothing forbidden."""


def open_contexts(
    model: DecoderOnly,
    special: SpecialIds,  # noqa: ARG001
    precision: Precision = "float32",
) -> ContextEngine:
    """Lay out a decoder-only model for reading and writing, on the compiled kernels where they support it."""
    from sixfold.decode.kernel_contexts import KernelContexts
    from sixfold.decode.torch_contexts import TorchContexts
    from sixfold.kernels.contexts import find_context_kernels

    if KernelContexts.supports(model.config, model.head.weight):
        kernels = find_context_kernels().kernels
        if kernels is not None:
            return KernelContexts(model, precision, kernels)
    return TorchContexts(model, precision)


def refuse_overflow(context: Context, count: int, max_positions: int) -> None:
    """Refuse more tokens than the model has positions for."""
    needed = len(context.tokens) + count
    if needed > max_positions:
        raise RequestError(
            f"The text is too long for this model: it has {needed:,} tokens, "
            f"and the context holds {max_positions:,}.",
            "Shorten it, or train with a larger model.max_positions.",
        )
