"""Dropout on a CPU by a hash of each element's place, from `dropout.c` where it can be compiled."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int32, c_long, c_uint64, c_void_p
from pathlib import Path

import torch
from torch import Tensor

from sixfold.errors import WorkError
from sixfold.kernels.build import Compiled, compiled

SOURCE = Path(__file__).with_suffix(".c")


def kernels() -> Compiled:
    """Return the compiled library, or why there is none."""
    return compiled(SOURCE, "sixfold.kernels.dropout:trial")


def is_possible(*tensors: Tensor) -> bool:
    """Return whether the kernel can work on these."""
    return all(each.dtype == torch.float32 for each in tensors) and kernels().library is not None


def drop(x: Tensor | None, y: Tensor, p: float, key: int) -> Tensor:
    """Return x + Dropout(y), dropping what the key decides; without an x only the latter."""
    library = kernels().library
    assert library is not None
    return drop_with(library, x, y, p, key)


def drop_with(library: ctypes.CDLL, x: Tensor | None, y: Tensor, p: float, key: int) -> Tensor:
    """Run the kernel of a library."""
    x, y = None if x is None else x.contiguous(), y.contiguous()
    output = torch.empty_like(y)
    library.drop(
        c_void_p(None if x is None else x.data_ptr()),
        c_void_p(y.data_ptr()),
        c_void_p(output.data_ptr()),
        c_long(y.numel()),
        c_uint64(key),
        c_int32(round(p * 2**31)),
        c_float(1 / (1 - p)),
    )
    return output


def trial(path: str) -> None:
    """Raise if a new library does not drop."""
    x, y = torch.zeros(100_003), torch.ones(100_003)
    output = drop_with(ctypes.CDLL(path), x, y, 0.25, key=12345)
    kept = output != 0
    torch.testing.assert_close(output, kept / 0.75)
    if not 0.74 < float(kept.float().mean()) < 0.76:
        raise WorkError("what it drops is not a quarter")
