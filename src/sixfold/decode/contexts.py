"""Contexts: the tokens that a decoder-only model has read, with their keys and values.

`torch_contexts.py` runs on any device and is the reference; the compiled kernels are faster, for what they
support. The results for a context are bit-identical whatever other contexts are read in the same call and however
its tokens are divided among calls.

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
        """Return another context with the same tokens; their common keys and values are in memory once."""

    def cut(self, length: int) -> None:
        """Drop all but the first `length` tokens."""


class ContextEngine(Protocol):
    """A decoder-only model that reads tokens into its contexts."""

    vocabulary: int
    max_positions: int  # maximum length of a context

    def new_context(self) -> Context:
        """Return an empty context."""

    def read(self, contexts: Sequence[Context], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append at least one token to each context; return the hidden states (N, d), context by context."""

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Return the model's log-probabilities (R, V) of the next token."""


def open_contexts(
    model: DecoderOnly,
    special: SpecialIds,  # noqa: ARG001
    precision: Precision = "float32",
) -> ContextEngine:
    """Lay out a decoder-only model for generation, on the compiled kernels if they support it."""
    from sixfold.decode.kernel_contexts import KernelContexts
    from sixfold.decode.torch_contexts import TorchContexts
    from sixfold.kernels.contexts import find_context_kernels

    if KernelContexts.supports(model.config, model.head.weight):
        kernels = find_context_kernels().kernels
        if kernels is not None:
            return KernelContexts(model, precision, kernels)
    return TorchContexts(model, precision)


def refuse_overflow(context: Context, count: int, max_positions: int) -> None:
    """Refuse more tokens than the model has positions."""
    needed = len(context.tokens) + count
    if needed > max_positions:
        raise RequestError(
            f"The text is too long for this model: it has {needed:,} tokens, "
            f"and the context holds {max_positions:,}.",
            "Shorten it, or train with a larger model.max_positions.",
        )
