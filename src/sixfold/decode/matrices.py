"""Matrix products with weights, in float32 or int8, whose rows do not depend on each other.

A BLAS chooses its kernel by the shape of a product, and kernels sum in different orders, so a row's last bits can
depend on the number of rows. Measured with MKL on AVX-512: with weights stored input-major, every row has the same
bits for any number of rows except one (Intel) or up to three (AMD), as long as there are at most 768 inputs. So
weights are stored that way, longer sums are split, and fewer than four rows are padded. In int8 sums are integers,
exact in any order.

Shapes: R rows, I inputs, O outputs.
"""

from __future__ import annotations

from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Precision = Literal["float32", "int8"]
LONGEST_SUM = 512  # inputs per product
FEWEST_ROWS = 4  # per product
SMALLEST_INT8 = 1 << 17  # elements of a matrix; for smaller ones, quantising the input costs more than it saves


class Matrix(Protocol):
    """The weights of a linear map."""

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """Return x·W + add, for rows x (R, I) and `add` that broadcasts to (R, O)."""


class FloatMatrix:
    """Weights in float32."""

    def __init__(self, weight: Tensor) -> None:
        """Take a weight (O, I), as `nn.Linear` has it."""
        self.parts = [part.contiguous() for part in weight.t().split(LONGEST_SUM)]

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """Return x·W + add."""
        rows = x.size(0)
        if rows < FEWEST_ROWS:
            x = filled_up(x)
            add = filled_up(add) if add is not None and add.shape[:-1] == (rows,) else add
        if len(self.parts) == 1:
            result = x @ self.parts[0] if add is None else torch.addmm(add, x, self.parts[0])
        else:
            result = self.sum_parts(x, add)
        return result[:rows]

    def sum_parts(self, x: Tensor, add: Tensor | None) -> Tensor:
        """Return the product as a sum of shorter products."""
        first, *others = zip(x.split(LONGEST_SUM, dim=1), self.parts, strict=True)
        result = first[0] @ first[1] if add is None else torch.addmm(add, *first)
        for each in others:
            result.addmm_(*each)
        return result


class Int8Matrix:
    """Weights quantised to 8 bits, with a scale per output; inputs are quantised with a scale per row."""

    def __init__(self, weight: Tensor) -> None:
        """Take a weight (O, I), as `nn.Linear` has it."""
        whole, scale = rounded(weight)
        self.weight = whole.t().contiguous()
        self.scale = scale.view(1, -1)

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """Return x·W + add, with x and W quantised."""
        whole, scale = rounded(x)
        product = torch._int_mm(whole, self.weight)
        result = product.to(x.dtype).mul_(self.scale).mul_(scale)
        return result if add is None else result.add_(add)


def filled_up(rows: Tensor) -> Tensor:
    """Pad with rows of zeros to the fewest rows of a product."""
    return F.pad(rows, [0, 0, 0, FEWEST_ROWS - rows.size(0)])


def rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise rows to integers from -127 to 127, and return them with the scale (R, 1) of each row."""
    scale = largest(rows) / 127
    return (rows / scale).round_().to(torch.int8), scale


def largest(rows: Tensor) -> Tensor:
    """Return the largest magnitude in each row (R, 1); slightly more than 0 for a row of zeros."""
    return rows.abs().amax(dim=1, keepdim=True).clamp_min_(1e-20)


def make_matrix(weight: Tensor, precision: Precision) -> Matrix:
    """Return the matrix of a weight (O, I), in int8 if that is requested and the matrix is large enough."""
    if precision == "int8" and weight.numel() >= SMALLEST_INT8:
        return Int8Matrix(weight)
    return FloatMatrix(weight)
