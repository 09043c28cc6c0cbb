"""Heads: from vectors to answers."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.nn.embedding import Embedding


class TokenHead(nn.Module):
    """Vectors to logits of the next token, with the matrix of an embedding (section 3.4)."""

    def __init__(self, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding

    @property
    def weight(self) -> Tensor:
        """The matrix (vocabulary, d_model)."""
        return self.embedding.weight

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the unnormalised log-probabilities (…, vocabulary) of hidden (…, d_model)."""
        return F.linear(hidden, self.weight)
