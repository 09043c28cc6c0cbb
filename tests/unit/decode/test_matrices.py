"""Products whose rows do not depend on each other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sixfold.decode.matrices import SMALLEST_INT8, FloatMatrix, Int8Matrix, make_matrix

KINDS = {"float32": FloatMatrix, "int8": Int8Matrix}
every_kind = pytest.mark.parametrize("kind", KINDS)
unhurried = settings(max_examples=25, deadline=None)


def random_weight(outputs: int, inputs: int, seed: int = 0) -> Tensor:
    """Return a weight as nn.Linear has it."""
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed)) / inputs**0.5


def random_rows(rows: int, inputs: int, seed: int = 1) -> Tensor:
    """Return some inputs."""
    return torch.randn(rows, inputs, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("inputs", [3, 128, 512, 513, 2048])
@pytest.mark.parametrize("rows", [1, 2, 5, 64])
def test_float32_is_the_product(rows: int, inputs: int) -> None:
    weight, x, bias = random_weight(40, inputs), random_rows(rows, inputs), random_rows(1, 40)[0]
    matrix, exact = FloatMatrix(weight), x.double() @ weight.double().t()
    torch.testing.assert_close(matrix(x).double(), exact, rtol=0, atol=1e-5)
    torch.testing.assert_close(matrix(x, bias).double(), exact + bias, rtol=0, atol=1e-5)
    residual = random_rows(rows, 40)
    torch.testing.assert_close(matrix(x, residual).double(), exact + residual, rtol=0, atol=1e-5)


@pytest.mark.parametrize("inputs", [128, 2048])
def test_int8_errs_no_more_than_rounding_to_eight_bits_must(inputs: int) -> None:
    weight, x, bias = random_weight(300, inputs), random_rows(50, inputs), random_rows(1, 300)[0]
    error = Int8Matrix(weight)(x, bias) - (x @ weight.t() + bias)
    # A number rounded to steps of s is off by s/sqrt(12) on average, and both factors are rounded.
    steps = [float((rows.abs().amax(dim=1) / 127).square().mean()) for rows in (x, weight * inputs**0.5)]
    assert float(error.std()) < 1.05 * (sum(steps) / 12) ** 0.5


@every_kind
@unhurried
@given(rows=st.integers(1, 300), shape=st.sampled_from([(384, 128), (1024, 256), (256, 1024), (512, 2048)]))
def test_a_row_has_the_same_bits_in_any_company(kind: str, rows: int, shape: tuple[int, int]) -> None:
    matrix, x = KINDS[kind](random_weight(*shape)), random_rows(300, shape[1])
    together = matrix(x)
    assert torch.equal(matrix(x[:rows]), together[:rows])
    assert torch.equal(matrix(x[300 - rows :]), together[300 - rows :])


@every_kind
def test_the_number_of_threads_does_not_change_a_bit(kind: str) -> None:
    matrix, x, before = KINDS[kind](random_weight(1024, 1024)), random_rows(70, 1024), torch.get_num_threads()
    results = []
    for num_threads in (1, 2):
        torch.set_num_threads(num_threads)
        results.append(matrix(x))
    torch.set_num_threads(before)
    assert torch.equal(*results)


def test_a_row_of_zeros_gives_zeros() -> None:
    assert Int8Matrix(random_weight(8, 4))(torch.zeros(3, 4)).abs().max() == 0


def test_a_weight_of_zeros_gives_zeros() -> None:
    assert Int8Matrix(torch.zeros(8, 4))(random_rows(3, 4)).abs().max() == 0


def test_int8_is_used_only_where_it_pays() -> None:
    large = torch.zeros(SMALLEST_INT8 // 64, 64)
    assert isinstance(make_matrix(large, "int8"), Int8Matrix)
    assert isinstance(make_matrix(large[1:], "int8"), FloatMatrix)
    assert isinstance(make_matrix(large, "float32"), FloatMatrix)
