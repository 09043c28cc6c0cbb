"""Our weights as other engines want them: the four matrices of an attention apart, with heads of one width, and
positions as tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from sixfold.decode.translate import Translator
from sixfold.nn import MultiHeadAttention


@dataclass(frozen=True)
class Matrix:
    """A linear map: weight (out, in), and the bias (out,) if it has one."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True)
class Projections:
    """W^Q, W^K, W^V and W^O of all heads."""

    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix


def projections(attention: MultiHeadAttention, width: int) -> Projections:
    """Return the matrices of an attention, with d_k and d_v widened to `width` by zeros.

    Zeros change no product; queries are scaled up by what an engine that divides by √width takes too much.
    """
    weights = attention.project.weight.detach().split(attention.sizes)
    fused = attention.project.bias
    biases = [None] * 3 if fused is None else fused.detach().split(attention.sizes)
    query, key, value = (
        Matrix(
            widened(weight, attention.heads, width),
            None if bias is None else widened(bias, attention.heads, width),
        )
        for weight, bias in zip(weights, biases, strict=True)
    )
    output, output_bias = attention.output.weight.detach(), attention.output.bias
    return Projections(
        query=scaled(query, math.sqrt(width * attention.heads / attention.sizes[0])),
        key=key,
        value=value,
        output=Matrix(
            widened(output.T, attention.heads, width).T, None if output_bias is None else output_bias.detach()
        ),
    )


def widened(rows: Tensor, heads: int, width: int) -> Tensor:
    """Return rows (heads·D, …) with zeros behind those of each head, (heads·width, …)."""
    by_head = rows.unflatten(0, (heads, -1))
    missing = width - by_head.size(1)
    return F.pad(by_head, (0, 0) * (rows.dim() - 1) + (0, missing)).flatten(0, 1)


def scaled(matrix: Matrix, factor: float) -> Matrix:
    """Return a linear map times a number."""
    return Matrix(matrix.weight * factor, None if matrix.bias is None else matrix.bias * factor)


def position_tables(translator: Translator) -> tuple[Tensor, Tensor]:
    """Return the encodings (positions, d_model) of both sides: all that were learned, or all that we would use."""
    model, end_mark = translator.model, 1
    is_learned = model.config.positions == "learned"
    longest = max(translator.longest_source + end_mark, translator.longest_target)
    num_positions = model.config.max_positions if is_learned else longest
    return model.source_positions(0, num_positions).detach(), model.target_positions(0, num_positions).detach()
