"""Dropout on a CPU by a hash of each element's index, by `dropout.c` if it can be compiled."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int32, c_long, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sixfold.kernels.build import Compiled, compiled
from sixfold.kernels.trial import WrongResultError

SOURCE = Path(__file__).with_suffix(".c")


def kernels() -> Compiled:
    """Return the compiled library, or the reason why there is none."""
    return compiled(SOURCE, "sixfold.kernels.dropout:trial")


def is_possible(*tensors: Tensor) -> bool:
    """Return whether the kernel supports these tensors."""
    return all(each.dtype == torch.float32 for each in tensors) and kernels().library is not None


def drop(x: Tensor | None, y: Tensor, p: float, key: int) -> Tensor:
    """Return x + Dropout(y), or Dropout(y) without x; the key decides which elements are dropped."""
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
    """Raise if a new library does not drop the elements that the hash says, a quarter in total."""
    library, key, p = ctypes.CDLL(path), 0x1234_5678_9ABC_DEF0, 0.25
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 100_003, generator=generator)
    kept = kept_by_hash(y.numel(), p, key)
    expected = torch.where(kept, y / (1 - p), 0.0)
    torch.testing.assert_close(drop_with(library, None, y, p, key), expected)
    torch.testing.assert_close(drop_with(library, x, y, p, key), x + expected)
    if not 0.74 < float(kept.float().mean()) < 0.76:
        raise WrongResultError("it does not drop a quarter")


def kept_by_hash(count: int, p: float, key: int) -> Tensor:
    """Return which elements `dropout.c` keeps, with its hash computed by NumPy."""
    low, high = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    bits = np.arange(count, dtype=np.uint32) ^ low
    bits = (bits ^ (bits >> np.uint32(17))) * np.uint32(0xED5AD4BB)
    bits = (bits ^ (bits >> np.uint32(11)) ^ high) * np.uint32(0xAC4C1B51)
    bits = (bits ^ (bits >> np.uint32(15))) * np.uint32(0x31848BAB)
    bits = (bits ^ (bits >> np.uint32(14))) >> np.uint32(1)
    return torch.from_numpy(bits >= np.uint32(round(p * 2**31)))
