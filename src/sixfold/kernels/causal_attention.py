"""Causal attention on a CPU, by `causal_attention.c` if it can be compiled.

Shapes: B batch, T positions, H heads, G key-value heads, D head width.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import Structure, c_float
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from sixfold.kernels.build import Compiled, compiled
from sixfold.kernels.structures import addresses, counts
from sixfold.kernels.threads import run

SOURCE = Path(__file__).with_suffix(".c")
TRIAL = "sixfold.kernels.causal_attention_trial:trial"  # compares it with torch
LANES = 16  # head widths are multiples of this


class AttentionStructure(Structure):
    """`Attention` in causal_attention.c."""

    _fields_ = (
        *addresses("projected", "bias", "cosine", "sine", "output", "log_totals"),
        *counts("positions", "heads", "key_heads", "width"),
        ("scale", c_float),
    )


class GradientsStructure(Structure):
    """`Gradients` in causal_attention.c."""

    _fields_ = (("forward", AttentionStructure), *addresses("output_gradient", "gradient"))


@dataclass(frozen=True)
class Heads:
    """The numbers of query heads and of key-value heads, their width, and the factor of the scores."""

    queries: int
    keys: int
    width: int
    scale: float

    @property
    def columns(self) -> int:
        """The width of the queries, keys and values of a position."""
        return (self.queries + 2 * self.keys) * self.width


def kernels() -> Compiled:
    """Return the compiled library, or the reason why there is none."""
    return compiled(SOURCE, TRIAL)


def is_possible(x: Tensor, heads: Heads, sizes: Sequence[int]) -> bool:
    """Return whether the kernel supports attention of x (B, T, d_model) with projections of these widths."""
    is_plain = x.is_cpu and x.dtype == torch.float32 and x.numel() > 0
    is_one_width = heads.width % LANES == 0 and sum(sizes) == heads.columns
    return is_one_width and is_plain and kernels().library is not None


def attend(projected: Tensor, bias: Tensor | None, turns: Tensor | None, heads: Heads) -> Tensor:
    """Return the outputs of all heads side by side (B, T, H·D).

    `projected` has queries, keys and values side by side (B, T, (H + 2G)·D), to which a bias is added. `turns` are
    the cosines and sines (2, T, D/2) of rotary positions.
    """
    library = kernels().library
    assert library is not None
    return attend_with(library, projected, bias, turns, heads)


def attend_with(
    library: ctypes.CDLL, projected: Tensor, bias: Tensor | None, turns: Tensor | None, heads: Heads
) -> Tensor:
    """Attend with the kernels of a library."""
    output: Tensor = CausalAttention.apply(library, projected, bias, turns, heads)  # type: ignore[no-untyped-call]
    return output


class CausalAttention(torch.autograd.Function):
    """Causal attention as one operation."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        library: ctypes.CDLL,
        projected: Tensor,
        bias: Tensor | None,
        turns: Tensor | None,
        heads: Heads,
    ) -> Tensor:
        """Attend, and save what the backward pass needs."""
        projected = projected.contiguous()
        bias = None if bias is None else bias.contiguous()
        turns = None if turns is None else turns.contiguous()
        batch, positions, _ = projected.shape
        output = projected.new_empty(batch, positions, heads.queries * heads.width)
        log_totals = projected.new_empty(batch, heads.queries, positions)
        structure = describe(projected, bias, turns, output, log_totals, heads)
        run(library.attend, structure, batch * heads.keys, torch.get_num_threads())
        ctx.save_for_backward(projected, bias, turns, output, log_totals)  # type: ignore[arg-type]
        ctx.library, ctx.heads = library, heads  # type: ignore[attr-defined]
        return output

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[None, Tensor, Tensor | None, None, None]:
        """Return the gradients of the projection and the bias."""
        projected, bias, turns, output, log_totals = ctx.saved_tensors  # type: ignore[attr-defined]
        library, heads = ctx.library, ctx.heads  # type: ignore[attr-defined]
        gradient, projected_gradient = gradient.contiguous(), torch.empty_like(projected)
        structure = describe(projected, bias, turns, output, log_totals, heads)
        gradients = GradientsStructure(structure, gradient.data_ptr(), projected_gradient.data_ptr())
        run(library.differentiate, gradients, len(projected) * heads.keys, torch.get_num_threads())
        bias_gradient = None if bias is None else projected_gradient.sum(dim=(0, 1))
        return None, projected_gradient, bias_gradient, None, None


def describe(
    projected: Tensor, bias: Tensor | None, turns: Tensor | None, output: Tensor, log_totals: Tensor, heads: Heads
) -> AttentionStructure:
    """Return the arguments of the kernel."""
    return AttentionStructure(
        projected.data_ptr(),
        None if bias is None else bias.data_ptr(),
        *((None, None) if turns is None else (side.data_ptr() for side in turns)),
        output.data_ptr(),
        log_totals.data_ptr(),
        projected.size(1),
        heads.queries,
        heads.keys,
        heads.width,
        heads.scale * math.log2(math.e),
    )
