"""Stems: from raw input to vectors.

Shapes: B batch, T positions.
"""

from __future__ import annotations

from torch import Tensor, nn

from sixfold.nn.dropout import Dropout
from sixfold.nn.embedding import Embedding


class TokenStem(nn.Module):
    """Tokens to vectors: Dropout(√d_model · embedding + position) (sections 3.4, 3.5 and 5.4)."""

    def __init__(self, embedding: Embedding, positions: nn.Module, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Return the vectors (B, T, d_model) of tokens (B, T) that stand at positions start, start+1, …"""
        return self.dropout(self.embedding(tokens) + self.positions(start, tokens.size(1)))
