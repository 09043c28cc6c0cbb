"""Stems: from raw input to vectors.

Shapes: B batch, T positions.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.nn.dropout import Dropout
from sixfold.nn.embedding import Embedding
from sixfold.nn.norms import Norm


class TokenTypes(nn.Module):
    """A learned vector for each segment of the input, such as a question and its context (BERT, 2018)."""

    def __init__(self, num_types: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(num_types, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, types: Tensor | None) -> Tensor:
        """Return the vectors (B, T, d_model) of types (B, T); without types, that of the first for every token."""
        return self.table[0] if types is None else F.embedding(types, self.table)


class TokenStem(nn.Module):
    """Tokens to vectors: Dropout(√d_model · embedding + position) (sections 3.4, 3.5 and 5.4).

    BERT adds token types and normalises the sum.
    """

    def __init__(
        self,
        embedding: Embedding,
        positions: nn.Module,
        dropout: float,
        token_types: TokenTypes | None = None,
        norm: Norm | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.token_types = token_types
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, start: int = 0, types: Tensor | None = None) -> Tensor:
        """Return the vectors (B, T, d_model) of tokens (B, T) at positions start, start+1, …"""
        x = self.embedding(tokens) + self.positions(start, tokens.size(1))
        if self.token_types is not None:
            x = x + self.token_types(types)
        return self.dropout(x if self.norm is None else self.norm(x))
