"""Attention of short sequences on a CPU, by `attention.c` if it can be compiled.

Queries, keys and values are read where the projections wrote them, and their gradients are written in the layout
of the projections' backward pass: nothing is split, transposed or concatenated.

Shapes: B batch, H heads, Q query positions, K key positions, D head width (d_k or d_v).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_float
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from sixfold.kernels.build import Compiled, compiled
from sixfold.kernels.structures import addresses, counts
from sixfold.kernels.threads import run

SOURCE = Path(__file__).with_suffix(".c")
TRIAL = "sixfold.kernels.attention_trial:trial"  # compares it with torch
LANES = 16  # head widths are multiples of this

Sizes = Sequence[int]  # H·d_k, H·d_k and H·d_v


class TensorStructure(Structure):
    """`Tensor` in attention.c."""

    _fields_ = (*addresses("data"), *counts("batch", "head", "position"))


class AttentionStructure(Structure):
    """`Attention` in attention.c."""

    _fields_ = (
        *((name, TensorStructure) for name in ("query", "key", "value", "output")),
        *addresses("log_totals", "mask"),
        *counts("mask_batch", "mask_query"),
        *counts("heads", "queries", "keys", "key_width", "value_width"),
        ("scale", c_float),
    )


class GradientsStructure(Structure):
    """`Gradients` in attention.c."""

    _fields_ = (
        ("forward", AttentionStructure),
        *((f"{name}_gradient", TensorStructure) for name in ("output", "query", "key", "value")),
    )


def kernels() -> Compiled:
    """Return the compiled library, or the reason why there is none."""
    return compiled(SOURCE, TRIAL)


def is_possible(projected: Tensor, heads: int, sizes: Sizes) -> bool:
    """Return whether the kernel supports this attention."""
    widths_fit = all(size // heads % LANES == 0 for size in sizes)
    is_plain = projected.is_cpu and projected.dtype == torch.float32 and projected.numel() > 0
    return widths_fit and is_plain and kernels().library is not None


def attend(projected: Tensor, memory: Tensor | None, mask: Tensor | None, heads: int, sizes: Sizes) -> Tensor:
    """Return the outputs of all heads side by side (B, Q, H·d_v).

    `projected` has the queries (B, Q, H·d_k) and `memory` has keys and values side by side (B, K, H·d_k + H·d_v);
    if it is None, they follow the queries in `projected`. The mask is boolean and broadcasts to (B, 1, Q, K).
    """
    library = kernels().library
    assert library is not None
    return attend_with(library, projected, memory, mask, heads, sizes)


def attend_with(
    library: ctypes.CDLL, projected: Tensor, memory: Tensor | None, mask: Tensor | None, heads: int, sizes: Sizes
) -> Tensor:
    """Attend with the kernels of a library."""
    output: Tensor = ShortAttention.apply(library, projected, memory, mask, heads, sizes)  # type: ignore[no-untyped-call]
    return output


class ShortAttention(torch.autograd.Function):
    """Attention as one operation."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        library: ctypes.CDLL,
        projected: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        heads: int,
        sizes: Sizes,
    ) -> Tensor:
        """Attend, and save what the backward pass needs."""
        projected = projected.contiguous()
        memory = None if memory is None else memory.contiguous()
        batch, queries, _ = projected.shape
        output = projected.new_empty(batch, queries, sizes[2])
        log_totals = projected.new_empty(batch, heads, queries)
        structure, kept_mask = describe(projected, memory, output, log_totals, mask, heads, sizes)
        run(library.attend, structure, batch, torch.get_num_threads())
        ctx.save_for_backward(projected, memory, output, log_totals, kept_mask)  # type: ignore[arg-type]
        ctx.library, ctx.heads, ctx.sizes = library, heads, sizes  # type: ignore[attr-defined]
        return output

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[None, Tensor, Tensor | None, None, None, None]:
        """Return the gradients of the projections."""
        projected, memory, output, log_totals, mask = ctx.saved_tensors  # type: ignore[attr-defined]
        library, heads, sizes = ctx.library, ctx.heads, ctx.sizes  # type: ignore[attr-defined]
        gradient = gradient.contiguous()
        projected_gradient = torch.empty_like(projected)
        memory_gradient = None if memory is None else torch.empty_like(memory)
        structure, _ = describe(projected, memory, output, log_totals, mask, heads, sizes)
        parts = places(projected_gradient, memory_gradient, heads, sizes)
        gradients = GradientsStructure(structure, place(gradient, 0, sizes[2] // heads), *parts)
        run(library.differentiate, gradients, projected.size(0), torch.get_num_threads())
        return None, projected_gradient, memory_gradient, None, None, None


def describe(
    projected: Tensor,
    memory: Tensor | None,
    output: Tensor,
    log_totals: Tensor,
    mask: Tensor | None,
    heads: int,
    sizes: Sizes,
) -> tuple[AttentionStructure, Tensor | None]:
    """Return the arguments of the kernel, and the mask, which must live as long as they do."""
    batch, queries, _ = projected.shape
    keys = queries if memory is None else memory.size(1)
    structure = AttentionStructure(
        *places(projected, memory, heads, sizes),
        place(output, 0, sizes[2] // heads),
        log_totals=log_totals.data_ptr(),
        heads=heads,
        queries=queries,
        keys=keys,
        key_width=sizes[0] // heads,
        value_width=sizes[2] // heads,
        scale=(sizes[0] // heads) ** -0.5,
    )
    if mask is not None:
        mask = mask.expand(batch, 1, queries, keys)
        mask = mask if mask.stride(3) == 1 else mask.contiguous()
        structure.mask = mask.data_ptr()
        structure.mask_batch, structure.mask_query = mask.stride(0), mask.stride(2)
    return structure, mask


def places(projected: Tensor, memory: Tensor | None, heads: int, sizes: Sizes) -> list[TensorStructure]:
    """Return the locations of queries, keys and values, or of their gradients."""
    d_k, d_v = sizes[0] // heads, sizes[2] // heads
    holder, offset = (projected, sizes[0]) if memory is None else (memory, 0)
    return [place(projected, 0, d_k), place(holder, offset, d_k), place(holder, offset + sizes[1], d_v)]


def place(tensor: Tensor, offset: int, width: int) -> TensorStructure:
    """Return columns of a contiguous tensor (B, positions, columns) as heads of a width."""
    data = tensor.data_ptr() + offset * tensor.element_size()
    return TensorStructure(data, tensor.stride(0), width, tensor.stride(1))
