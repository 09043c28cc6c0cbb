"""The trial of a new causal attention library: compares outputs and gradients with torch in float64."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from sixfold.kernels.causal_attention import Heads, attend_with

BATCH = 2


@dataclass(frozen=True)
class Case:
    """A length and heads, with or without a bias and rotary positions."""

    positions: int
    heads: Heads
    has_bias: bool
    is_rotary: bool

    def inputs(self, generator: torch.Generator) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return a random projection, and a bias and rotations if the case has them."""
        projected = torch.randn(BATCH, self.positions, self.heads.columns, generator=generator)
        angles = torch.randn(self.positions, self.heads.width // 2, generator=generator)
        return (
            projected,
            torch.randn(self.heads.columns, generator=generator) if self.has_bias else None,
            torch.stack([angles.cos(), angles.sin()]) if self.is_rotary else None,
        )


CASES = (  # a part of a vector, whole blocks, some blocks and a part; each kind of heads and positions
    Case(19, Heads(2, 2, 16, 0.3), has_bias=False, is_rotary=False),
    Case(128, Heads(2, 2, 32, 0.3), has_bias=True, is_rotary=False),
    Case(150, Heads(4, 2, 64, 0.3), has_bias=False, is_rotary=True),
    Case(81, Heads(3, 1, 48, 0.3), has_bias=True, is_rotary=True),
)


def trial(path: str) -> None:
    """Raise if a new library does not compute causal attention or its gradients."""
    library = ctypes.CDLL(path)
    generator = torch.Generator().manual_seed(1)
    for case in CASES:
        projected, bias, turns = case.inputs(generator)
        inputs = [each.requires_grad_() for each in (projected, bias) if each is not None]
        output = attend_with(library, projected, bias, turns, case.heads)
        expected = attention_of_torch(projected, bias, turns, case.heads)
        gradient = torch.randn(output.shape, generator=generator)
        found = (output, *torch.autograd.grad(output, inputs, gradient))
        wanted = (expected, *torch.autograd.grad(expected, inputs, gradient))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def attention_of_torch(projected: Tensor, bias: Tensor | None, turns: Tensor | None, heads: Heads) -> Tensor:
    """Return softmax(scale·QKᵀ)V over the positions up to each query's, in float64, rounded."""
    biased = projected.double() if bias is None else projected.double() + bias.double()
    counts = (heads.queries, heads.keys, heads.keys)
    query, key, value = (
        part.unflatten(2, (count, -1)).transpose(1, 2)
        for part, count in zip(biased.split([count * heads.width for count in counts], dim=2), counts, strict=True)
    )
    if turns is not None:
        query, key = turned(query, turns.double()), turned(key, turns.double())
    key, value = (each.repeat_interleave(heads.queries // heads.keys, dim=1) for each in (key, value))
    scores = query @ key.transpose(2, 3) * heads.scale
    seen = torch.ones(scores.shape[2:], dtype=torch.bool).tril()
    return (scores.masked_fill(~seen, -torch.inf).softmax(dim=3) @ value).transpose(1, 2).flatten(2).float()


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """Rotate the pairs of dimensions i and i + D/2 of x (B, H, T, D) by angles with these cosines and sines."""
    pairs = torch.complex(*x.chunk(2, dim=-1)) * torch.complex(turns[0], turns[1])
    return torch.cat([pairs.real, pairs.imag], dim=-1)
