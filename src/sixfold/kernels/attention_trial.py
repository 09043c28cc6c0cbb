"""The trial of a new attention library: compares outputs and gradients with torch in float64."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from sixfold.kernels.attention import LANES, attend_with

HEADS, BATCH = 2, 2


@dataclass(frozen=True)
class Case:
    """Lengths, head widths and a mask; without memory keys it is self-attention."""

    queries: int
    memory_keys: int
    d_k: int
    d_v: int
    mask: Tensor | None

    @property
    def sizes(self) -> list[int]:
        """The widths of all queries, keys and values of a position."""
        return [HEADS * self.d_k, HEADS * self.d_k, HEADS * self.d_v]

    def inputs(self, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Return random projections, and a memory's if there is one."""
        query, key, value = self.sizes
        if not self.memory_keys:
            return torch.randn(BATCH, self.queries, query + key + value, generator=generator), None
        memory = torch.randn(BATCH, self.memory_keys, key + value, generator=generator)
        return torch.randn(BATCH, self.queries, query, generator=generator), memory


def cases() -> tuple[Case, ...]:
    """Return self-attention and cross-attention, each kind of mask, one and several blocks of queries."""
    causal = torch.ones(19, 19).tril().bool()
    padding = (torch.arange(33) < torch.tensor([[33], [5]]))[:, None, None]
    sparse = torch.arange(130)[:, None] % 7 > torch.arange(33) % 7  # every seventh query attends to nothing
    return (
        Case(19, 0, LANES, LANES, None),
        Case(19, 0, 2 * LANES, LANES, causal),
        Case(70, 33, LANES, 3 * LANES, padding),
        Case(130, 33, LANES, LANES, padding & sparse),
    )


def trial(path: str) -> None:
    """Raise if a new library does not compute attention or its gradients."""
    library = ctypes.CDLL(path)
    generator = torch.Generator().manual_seed(1)
    for case in cases():
        projected, memory = case.inputs(generator)
        inputs = [each.requires_grad_() for each in (projected, memory) if each is not None]
        output = attend_with(library, projected, memory, case.mask, HEADS, case.sizes)
        expected = attention_of_torch(projected, memory, case)
        gradient = torch.randn(output.shape, generator=generator)
        found = (output, *torch.autograd.grad(output, inputs, gradient))
        wanted = (expected, *torch.autograd.grad(expected, inputs, gradient))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-5)


def attention_of_torch(projected: Tensor, memory: Tensor | None, case: Case) -> Tensor:
    """Return softmax(QKᵀ/√d_k)V in float64, rounded; a query that attends to nothing gets 0."""
    columns = (
        projected.split(case.sizes, dim=2) if memory is None else (projected, *memory.split(case.sizes[1:], 2))
    )
    query, key, value = (each.double().unflatten(2, (HEADS, -1)).transpose(1, 2) for each in columns)
    mask = torch.tensor(True) if case.mask is None else case.mask
    scores = query @ key.transpose(2, 3) * case.d_k**-0.5
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=3) * mask
    return (weights @ value).transpose(1, 2).flatten(2).float()
