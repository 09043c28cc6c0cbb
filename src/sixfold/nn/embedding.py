"""Embeddings (section 3.4), with gradients of only the rows that were looked up."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

OF_THREAD = threading.local()  # a thread's lookups, while it collects them


@dataclass(frozen=True)
class Lookup:
    """Rows looked up in a matrix, as a leaf of the autograd graph."""

    weight: nn.Parameter
    tokens: Tensor
    rows: Tensor  # of the weight, one for each token


@contextmanager
def lookups_apart() -> Iterator[list[Lookup]]:
    """List this thread's lookups; each gets its own gradient instead of adding to that of the matrix.

    The gradient of the matrix would be as large as the matrix, and almost all zero.
    """
    OF_THREAD.lookups = []
    try:
        yield OF_THREAD.lookups
    finally:
        del OF_THREAD.lookups


class Embedding(nn.Module):
    """The matrix (vocabulary, d_model) that turns tokens into vectors; a `TokenHead` may share it."""

    def __init__(self, vocabulary: int, d_model: int, is_scaled: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, d_model))
        self.scale = math.sqrt(d_model) if is_scaled else 1.0
        # With this standard deviation the scaled embeddings and, for a normalised hidden state, the logits both
        # start with variance one.
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the vectors of the tokens, multiplied by √d_model."""
        rows = F.embedding(tokens, self.weight)
        if hasattr(OF_THREAD, "lookups"):
            rows = rows.detach().requires_grad_()
            OF_THREAD.lookups.append(Lookup(self.weight, tokens, rows))
        return rows * self.scale
