"""Heads: from vectors to answers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.nn.embedding import Embedding


class TokenHead(nn.Module):
    """Vectors to logits of the next token, with the matrix of an embedding (section 3.4) or one of its own."""

    def __init__(self, embedding: Embedding, is_tied: bool = True) -> None:
        super().__init__()
        self.weight = embedding.weight if is_tied else nn.Parameter(torch.empty_like(embedding.weight))
        if not is_tied:
            nn.init.normal_(self.weight, std=self.weight.size(1) ** -0.5)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the unnormalised log-probabilities (…, vocabulary) of hidden (…, d_model)."""
        return F.linear(hidden, self.weight)
