"""Embeddings and softmax (section 3.4): one matrix for both embeddings and the pre-softmax projection."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TiedEmbedding(nn.Module):
    """The shared matrix (vocabulary, d_model): it turns tokens into vectors and vectors into logits."""

    def __init__(self, vocabulary: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, d_model))
        self.scale = math.sqrt(d_model)
        # With this spread the scaled embeddings and, for a normalised hidden state, the logits
        # both start with variance one.
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the vectors of the tokens, multiplied by √d_model."""
        return F.embedding(tokens, self.weight) * self.scale

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the unnormalised log-probabilities of every token of the vocabulary."""
        return F.linear(hidden, self.weight)
