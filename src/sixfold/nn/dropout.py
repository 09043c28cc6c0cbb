"""Dropout (section 5.4), with masks that cost little on a CPU.

Drawing a random number for each element takes torch several times as long as using it. Sixteen random bits are
enough to drop with probability p within 1/131072, and one draw of the generator gives four of them.
"""

from __future__ import annotations

import threading

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16  # of a random number of sixteen bits
OF_THREAD = threading.local()  # its generator, if it has one of its own


def draw_from(seed: int) -> None:
    """Let this thread draw its masks on the CPU from a generator of its own, so that others cannot disturb it."""
    OF_THREAD.generator = torch.Generator().manual_seed(seed)


class Dropout(nn.Module):
    """Sets elements to zero with probability p while training, and scales the rest to keep the mean."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of x."""
        if not self.is_active:
            return x
        return x * keep_mask(x, self.p) if x.is_cpu else F.dropout(x, self.p)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x + Dropout(y), in one pass."""
        if self.is_active and y.is_cpu:
            return torch.addcmul(x, y, keep_mask(y, self.p))
        return x + self.forward(y)

    @property
    def is_active(self) -> bool:
        """Whether anything is dropped now."""
        return self.training and self.p > 0

    def extra_repr(self) -> str:
        """Show p where the module is printed."""
        return f"p={self.p}"


def keep_mask(like: Tensor, p: float) -> Tensor:
    """Return 0 with probability p and otherwise what keeps the mean at 1, in the shape of `like`."""
    dropped = round(p * LEVELS)
    generator = getattr(OF_THREAD, "generator", None)
    draws = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    bits = draws.view(torch.int16)[: like.numel()].view(like.shape)
    mask = torch.empty_like(like, memory_format=torch.contiguous_format)
    torch.ge(bits, dropped - LEVELS // 2, out=mask)
    return mask.mul_(LEVELS / (LEVELS - dropped))
