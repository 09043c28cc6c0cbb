"""Dropout (section 5.4) that is cheap on a CPU.

torch takes ten times as long to draw a random number for each element as to use it. The compiled kernel, if there
is one, hashes the element's index instead; otherwise one draw of the generator serves four elements.
"""

from __future__ import annotations

import threading

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from sixfold.errors import ConfigError
from sixfold.kernels import dropout as kernel

LEVELS = 1 << 16  # values of a 16-bit random number
MAX_DROPOUT = 0.999  # a higher probability could be rounded to 1, and then nothing would be left to scale
OF_THREAD = threading.local()  # a thread's own generator, if it has one


def draw_from(seed: int) -> None:
    """Give this thread its own CPU generator, so that other threads do not change its random numbers."""
    OF_THREAD.generator = torch.Generator().manual_seed(seed)


def draw(count: int) -> Tensor:
    """Return 64-bit random numbers."""
    generator = getattr(OF_THREAD, "generator", None)
    return torch.empty(count, dtype=torch.int64).random_(-(2**63), None, generator=generator)


class Dropout(nn.Module):
    """Sets elements to zero with probability p while training, and scales the rest to keep the mean."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = checked(p)

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of x."""
        if not self.is_active:
            return x
        if not x.is_cpu:
            return F.dropout(x, self.p)
        return dropped(None, x, self.p) if kernel.is_possible(x) else x * keep_mask(x, self.p)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x + Dropout(y), in one pass."""
        if not self.is_active or not y.is_cpu:
            return x + self.forward(y)
        if x.shape == y.shape and kernel.is_possible(x, y):
            return dropped(x, y, self.p)
        return torch.addcmul(x, y, keep_mask(y, self.p))

    @property
    def is_active(self) -> bool:
        """Whether elements are dropped in the current mode."""
        return self.training and self.p > 0

    def extra_repr(self) -> str:
        """Show p when the module is printed."""
        return f"p={self.p}"


def set_dropout(model: nn.Module, p: float) -> None:
    """Set the probability of every dropout of a model."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = checked(p)


def checked(p: float) -> float:
    """Return the probability; refuse one that is out of range."""
    if not 0 <= p <= MAX_DROPOUT:
        raise ConfigError(
            f"dropout must be from 0 to {MAX_DROPOUT}, but is {p}.", "The paper's base model has 0.1."
        )
    return p


def keep_mask(like: Tensor, p: float) -> Tensor:
    """Return a tensor like `like`: 0 with probability p (within 1/131072), otherwise 1/(1-p)."""
    num_dropped = round(p * LEVELS)
    bits = draw(-(-like.numel() // 4)).view(torch.int16)[: like.numel()].view(like.shape)
    mask = torch.empty_like(like, memory_format=torch.contiguous_format)
    torch.ge(bits, num_dropped - LEVELS // 2, out=mask)
    return mask.mul_(LEVELS / (LEVELS - num_dropped))


def dropped(x: Tensor | None, y: Tensor, p: float) -> Tensor:
    """Return x + Dropout(y) from the compiled kernel, or Dropout(y) without x."""
    output: Tensor = Dropped.apply(x, y, p)  # type: ignore[no-untyped-call]
    return output


class Dropped(torch.autograd.Function):
    """x + Dropout(y) as one operation, which stores a key instead of a mask."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor | None, y: Tensor, p: float) -> Tensor:
        """Draw a key and drop by its hash."""
        ctx.p, ctx.key = p, int(draw(1))  # type: ignore[attr-defined]
        return kernel.drop(x, y, p, ctx.key)  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, Tensor, None]:
        """Drop the gradients of the dropped elements."""
        of_x = gradient if ctx.needs_input_grad[0] else None  # type: ignore[attr-defined]
        return of_x, kernel.drop(None, gradient, ctx.p, ctx.key), None  # type: ignore[attr-defined]
