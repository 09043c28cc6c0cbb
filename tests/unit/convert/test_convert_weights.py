"""An attention keeps its output when its heads become wider, and when its matrices stand apart."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from sixfold.convert.weights import Matrix, projections
from sixfold.nn import MultiHeadAttention, attention

D_MODEL, HEADS = 12, 3


def apply(matrix: Matrix, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, matrix.weight, matrix.bias)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("d_k", "d_v", "width"), [(4, 4, 4), (2, 4, 4), (4, 1, 4), (3, 5, 9)])
def test_wider_heads_give_the_same_output(d_k: int, d_v: int, width: int, bias: bool) -> None:
    module = MultiHeadAttention(D_MODEL, HEADS, d_k, d_v, bias).double()
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_()
    query, memory = torch.randn(2, 5, D_MODEL).double(), torch.randn(2, 7, D_MODEL).double()
    matrices = projections(module, width)
    heads, _ = attention(
        *(
            apply(matrix, x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for matrix, x in ((matrices.query, query), (matrices.key, memory), (matrices.value, memory))
        )
    )
    assert heads.size(-1) == width
    torch.testing.assert_close(apply(matrices.output, heads.transpose(1, 2).flatten(2)), module(query, memory))
