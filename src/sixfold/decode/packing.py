"""Weights in the memory layout of the compiled kernels.

They are padded with zeros: outputs and inputs of a matrix to whole panels, heads to whole vectors.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sixfold.decode.extensions import BLOCK
from sixfold.decode.matrices import Precision, rounded
from sixfold.decode.torch_engine import UNSEEN
from sixfold.kernels.decoding import MatrixStructure, NormStructure
from sixfold.nn.layout import Linear, NormWeights


class Packing:
    """Packs the weights of a model."""

    def __init__(self, panel: int, precision: Precision) -> None:
        self.panel, self.precision = panel, precision
        self.kept: list[Tensor] = []  # tensors that the structures point to

    def keep(self, x: Tensor) -> int:
        """Keep a tensor and return its address."""
        self.kept.append(x.contiguous())
        return self.kept[-1].data_ptr()

    def padded(self, rows: Tensor) -> Tensor:
        """Pad the last dimension to whole panels."""
        missing = -rows.size(-1) % self.panel
        return F.pad(rows, [0, missing]) if missing else rows.contiguous()

    def vector(self, x: Tensor) -> int:
        """Pack a vector, padded with zeros, and return its address."""
        return self.keep(self.padded(x.detach().float()))

    def norm(self, norm: NormWeights | None) -> NormStructure:
        """Pack a norm, if there is one."""
        if norm is None:
            return NormStructure()
        bias = None if norm.bias is None else self.vector(norm.bias)
        return NormStructure(self.vector(norm.weight), bias, norm.epsilon)

    def linear(self, linear: Linear) -> MatrixStructure:
        """Pack a linear map."""
        return self.matrix(linear.weight, linear.bias)

    def matrix(self, weight: Tensor, bias: Tensor | None = None) -> MatrixStructure:
        """Pack a weight (O, I), as `nn.Linear` has it, in panels of outputs."""
        bias = weight.new_zeros(weight.size(0)) if bias is None else bias
        weight = F.pad(weight.detach(), [0, -weight.size(1) % self.panel, 0, -weight.size(0) % self.panel])
        outputs, inputs = weight.shape
        scale = None
        if self.precision == "int8":
            whole, scales = rounded(weight)
            unsigned = (whole.short() + 128).to(torch.uint8)  # the kernels multiply unsigned by signed
            panels, scale = unsigned.view(-1, self.panel, inputs // 4, 4), self.keep(scales[:, 0])
        else:
            panels = weight.view(-1, self.panel, inputs)
        return MatrixStructure(self.keep(panels.transpose(1, 2)), scale, self.vector(bias), inputs, outputs)

    def projection(self, weight: Tensor) -> MatrixStructure:
        """Pack the projection (V, d) to logits, padded to whole blocks with tokens that are never chosen."""
        weight = weight.detach()
        surplus = -weight.size(0) % BLOCK
        bias = F.pad(weight.new_zeros(weight.size(0)), [0, surplus], value=UNSEEN)
        return self.matrix(F.pad(weight, [0, 0, 0, surplus]), bias)
