"""Positions: sinusoids (section 3.5), learned vectors (table 3, row E), or rotations of queries and keys."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sixfold.errors import RequestError
from sixfold.nn.config import BlockConfig


def sinusoids(length: int, d_model: int) -> Tensor:
    """Return PE (length, d_model): PE(pos, 2i) = sin(pos/10000^(2i/d_model)), PE(pos, 2i+1) = cos(same).

    The table is computed in float64, because float32 loses the phase of the fast sinusoids at large positions.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate[: d_model // 2])
    return table.float()


class SinusoidalPositions(nn.Module):
    """The fixed sinusoids, for sentences of any length: the table grows when needed."""

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
                f"but only {self.table.size(0):,} were learned.",
                "Split it into shorter sentences, or train with a larger model.max_positions.",
            )
        return self.table[start : start + length]


class RotaryPositions(nn.Module):
    """Rotations of queries and keys by their positions, so that scores depend on distances (Su et al., 2021).

    Dimensions i and i + D/2 of a head are a pair, as in Llama's published weights; pair i rotates by base^(-2i/D)
    per position.
    """

    table: Tensor

    def __init__(self, width: int, base: float, length: int = 256) -> None:
        super().__init__()
        self.width, self.base = width, base
        self.register_buffer("table", rotations(length, width, base), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Rotate x (B, H, T, D), whose positions are start, start+1, …"""
        return turned(x, self.turns(start, x.size(-2)).to(x.dtype))

    def turns(self, start: int, length: int) -> Tensor:
        """Return cosines and sines (2, length, D/2) of positions start, start+1, …"""
        if start + length > self.table.size(1):
            longer = rotations(2 * (start + length), self.width, self.base)
            self.table = longer.to(device=self.table.device, dtype=self.table.dtype)
        return self.table[:, start : start + length]


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """Return x (…, T, D) rotated by the cosines and sines (2, T, D/2) of its positions."""
    cosine, sine = turns
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def rotations(length: int, width: int, base: float) -> Tensor:
    """Return the cosines and sines (2, length, width / 2) of every pair's angle at every position."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([torch.cos(position * rate), torch.sin(position * rate)]).float()


class NoPositions(nn.Module):
    """The position vectors of a model with rotary positions: 0."""

    zero: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(1), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:  # noqa: ARG002
        """Return 0, which broadcasts to every shape."""
        return self.zero


def make_positions(config: BlockConfig) -> nn.Module:
    """Return the module that gives the vectors to add to the embeddings."""
    if config.positions == "rotary":
        return NoPositions()
    if config.positions == "learned":
        return LearnedPositions(config.d_model, config.max_positions)
    return SinusoidalPositions(config.d_model)
