"""Positions (section 3.5): sinusoids by default, learned vectors by choice (table 3, row E)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sixfold.errors import RequestError


def sinusoids(length: int, d_model: int) -> Tensor:
    """Return PE (length, d_model): PE(pos, 2i) = sin(pos/10000^(2i/d_model)), PE(pos, 2i+1) = cos(same).

    The table is computed in float64, because float32 loses the phase of the fast sinusoids far along.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate[: d_model // 2])
    return table.float()


class SinusoidalPositions(nn.Module):
    """The fixed sinusoids, for sentences of any length: the table grows when a longer one comes."""

    table: Tensor

    def __init__(self, d_model: int, length: int = 256) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table", sinusoids(length, d_model), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the encodings (length, d_model) of positions start, start+1, …"""
        if start + length > self.table.size(0):
            longer = sinusoids(2 * (start + length), self.d_model)
            self.table = longer.to(device=self.table.device, dtype=self.table.dtype)
        return self.table[start : start + length]


class LearnedPositions(nn.Module):
    """One learned vector for each of a fixed number of positions."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the vectors (length, d_model) of positions start, start+1, …"""
        if start + length > self.table.size(0):
            raise RequestError(
                f"The text is too long for this model: it needs position {start + length - 1:,} "
                f"and only {self.table.size(0):,} were learned.",
                "Split it into shorter sentences, or train with a larger model.max_positions.",
            )
        return self.table[start : start + length]
