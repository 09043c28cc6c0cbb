"""Residual connection, dropout and layer normalisation around every sub-layer (sections 3.1 and 5.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from sixfold.nn.dropout import Dropout

Norm = Literal["post", "pre"]
Sublayer = Callable[[Tensor], Tensor]


class PostNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): the paper's order."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """Apply the sub-layer to x (…, d_model), add, then normalise."""
        return self.norm(self.dropout.add(x, sublayer(x)))


class PreNorm(nn.Module):
    """x + Dropout(Sublayer(LayerNorm(x))): needs less warm-up and stays stable when deep."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """Normalise x (…, d_model), apply the sub-layer, then add."""
        return self.dropout.add(x, sublayer(self.norm(x)))


def residual(norm: Norm, d_model: int, dropout: float) -> PostNorm | PreNorm:
    """Return the wrapper of one sub-layer."""
    return PostNorm(d_model, dropout) if norm == "post" else PreNorm(d_model, dropout)


def final_norm(norm: Norm, d_model: int) -> nn.Module:
    """Return what follows the last layer: pre-norm leaves its sum unnormalised, so it needs one more norm."""
    return nn.LayerNorm(d_model) if norm == "pre" else nn.Identity()
