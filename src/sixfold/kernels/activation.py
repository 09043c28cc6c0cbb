"""Smooth activations on a CPU, fused with bias and gate, by a kernel in C if it can be compiled.

Shapes: N rows, F columns.
"""

from __future__ import annotations

import ctypes
import math
from ctypes import Structure, c_float
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx

from sixfold.kernels.build import Compiled, compiled
from sixfold.kernels.structures import addresses, counts
from sixfold.kernels.threads import run

SOURCE = Path(__file__).with_suffix(".c")
CHUNK = 64  # rows, as in activation.c


class Curve(NamedTuple):
    """The activation z·σ(linear·z + cubic·z³)."""

    linear: float
    cubic: float = 0.0


class ActivationStructure(Structure):
    """`Activation` in activation.c."""

    _fields_ = (
        *addresses("x", "bias", "gate", "output"),
        *counts("rows", "columns"),
        *((name, c_float) for name in ("linear", "cubic")),
    )


class GradientsStructure(Structure):
    """`Gradients` in activation.c."""

    _fields_ = (
        ("forward", ActivationStructure),
        *addresses("output_gradient", "gradient", "bias_gradient", "gate_gradient"),
    )


def kernels() -> Compiled:
    """Return the compiled library, or the reason why there is none."""
    return compiled(SOURCE, "sixfold.kernels.activation:trial")


def is_possible(x: Tensor) -> bool:
    """Return whether the kernel supports this tensor."""
    return x.is_cpu and x.dtype == torch.float32 and x.numel() > 0 and kernels().library is not None


def activate(x: Tensor, bias: Tensor | None, gate: Tensor | None, curve: Curve) -> Tensor:
    """Return the activation of x + bias, times the gate, for x (…, F), bias (F) and gate (…, F)."""
    library = kernels().library
    assert library is not None
    return activate_with(library, x, bias, gate, curve)


def activate_with(
    library: ctypes.CDLL, x: Tensor, bias: Tensor | None, gate: Tensor | None, curve: Curve
) -> Tensor:
    """Activate with the kernel of a library."""
    bias = x.new_zeros(x.size(-1)) if bias is None else bias
    output: Tensor = Activated.apply(library, x, bias, gate, curve)  # type: ignore[no-untyped-call]
    return output


class Activated(torch.autograd.Function):
    """Bias, activation and gate as one operation, which stores only its inputs."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, library: ctypes.CDLL, x: Tensor, bias: Tensor, gate: Tensor | None, curve: Curve
    ) -> Tensor:
        """Activate."""
        x, bias, gate = x.contiguous(), bias.contiguous(), None if gate is None else gate.contiguous()
        output = torch.empty_like(x)
        run_chunks(library.activate, describe(x, bias, gate, output, curve), x)
        ctx.save_for_backward(x, bias, gate)  # type: ignore[arg-type]
        ctx.library, ctx.curve = library, curve  # type: ignore[attr-defined]
        return output

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[None, Tensor, Tensor, Tensor | None, None]:
        """Return the gradients of x, the bias and the gate."""
        x, bias, gate = ctx.saved_tensors  # type: ignore[attr-defined]
        gradient, of_x = gradient.contiguous(), torch.empty_like(x)
        of_bias, of_gate = x.new_empty(num_chunks(x), x.size(-1)), None if gate is None else torch.empty_like(gate)
        places = (None if each is None else each.data_ptr() for each in (gradient, of_x, of_bias, of_gate))
        structure = GradientsStructure(describe(x, bias, gate, None, ctx.curve), *places)  # type: ignore[attr-defined]
        run_chunks(ctx.library.differentiate, structure, x)  # type: ignore[attr-defined]
        return None, of_x, of_bias.sum(dim=0), of_gate, None


def describe(
    x: Tensor, bias: Tensor, gate: Tensor | None, output: Tensor | None, curve: Curve
) -> ActivationStructure:
    """Return the arguments of the kernel."""
    places = (None if each is None else each.data_ptr() for each in (x, bias, gate, output))
    factors = (each * math.log2(math.e) for each in curve)
    return ActivationStructure(*places, num_rows(x), x.size(-1), *factors)


def num_rows(x: Tensor) -> int:
    """Return N of x (…, F)."""
    return math.prod(x.shape[:-1])


def num_chunks(x: Tensor) -> int:
    """Return the number of chunks that the rows are divided into."""
    return -(-num_rows(x) // CHUNK)


def run_chunks(kernel: ctypes._NamedFuncPointer, structure: Structure, x: Tensor) -> None:
    """Run a kernel on all rows."""
    run(kernel, structure, num_chunks(x), torch.get_num_threads())


def trial(path: str) -> None:
    """Raise if a new library does not compute an activation or its gradients as torch does in float64."""
    library, generator = ctypes.CDLL(path), torch.Generator().manual_seed(1)
    x, gate, gradient = 3 * torch.randn(3, CHUNK + 5, 41, generator=generator)
    bias = torch.randn(x.size(-1), generator=generator)
    for factor, curve in ((None, Curve(1.5957691, 0.0713548)), (gate, Curve(1.0))):
        leaves = [each.requires_grad_() for each in (x, bias, factor) if each is not None]
        found = activate_with(library, x, bias, factor, curve)
        expected = activation_of_torch(x, bias, factor, curve)
        both = [(each, *torch.autograd.grad(each, leaves, gradient)) for each in (found, expected)]
        torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5)


def activation_of_torch(x: Tensor, bias: Tensor, gate: Tensor | None, curve: Curve) -> Tensor:
    """Return the activation of x + bias, times the gate, in float64, rounded."""
    z = x.double() + bias.double()
    activated = z * F.sigmoid(curve.linear * z + curve.cubic * z**3)
    return (activated if gate is None else activated * gate.double()).float()
