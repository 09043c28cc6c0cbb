"""Dropout: its probability, its mean, its gradient, its seed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sixfold.errors import ConfigError
from sixfold.kernels import dropout as kernel
from sixfold.nn import Dropout
from sixfold.nn.dropout import MAX_DROPOUT, set_dropout

pytestmark = pytest.mark.usefixtures("seed", "kernels")


@pytest.fixture(params=["compiled", "torch"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs with the compiled kernel and without."""
    if request.param == "torch":
        monkeypatch.setenv("SIXFOLD_KERNELS", "off")
    elif kernel.kernels().library is None:
        pytest.skip(kernel.kernels().reason)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_elements_are_dropped_with_their_probability_and_the_mean_is_kept(p: float) -> None:
    ones = torch.ones(1000, 400)
    dropped = Dropout(p)(ones)
    share = float((dropped == 0).float().mean())
    assert share == pytest.approx(p, abs=5 * (p * (1 - p) / ones.numel()) ** 0.5)
    assert dropped.max() == pytest.approx(1 / (1 - p), rel=1e-4)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.02)


def test_no_two_places_are_dropped_together_more_often_than_by_chance() -> None:
    draws = torch.stack([Dropout(0.5)(torch.ones(64)) for _ in range(4000)]) > 0
    together = torch.corrcoef(draws.t().float()).fill_diagonal_(0)
    assert together.abs().max() < 6 / 4000**0.5


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_places_of_one_draw_are_independent_at_any_distance(p: float) -> None:
    kept = (Dropout(p)(torch.ones(400_000)) > 0).float() - (1 - p)
    for distance in (*range(1, 20), 32, 64, 100, 128, 256, 512, 1000, 1024, 4096, 65536):
        products = kept[:-distance] * kept[distance:]
        assert abs(float(products.mean())) < 5.5 * p * (1 - p) / products.numel() ** 0.5


def test_two_draws_are_independent() -> None:
    dropout, ones = Dropout(0.5), torch.ones(400_000)
    first, second = ((dropout(ones) > 0).float() - 0.5 for _ in range(2))
    assert abs(float((first * second).mean())) < 5.5 * 0.25 / 400_000**0.5


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3, 5), (7, 1)])
def test_any_shape_is_possible(shape: tuple[int, ...]) -> None:
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


def test_the_gradient_passes_where_the_element_did() -> None:
    x = torch.randn(50, 20, requires_grad=True)
    Dropout(0.5)(x).sum().backward()
    torch.manual_seed(1)
    mask = Dropout(0.5)(torch.ones(50, 20))
    x.grad = None
    torch.manual_seed(1)
    Dropout(0.5)(x).sum().backward()
    assert torch.equal(x.grad, mask)


def test_a_sum_passes_the_whole_gradient_to_x_and_the_rest_to_y() -> None:
    dropout, x, y = Dropout(0.4), torch.randn(30, 20, requires_grad=True), torch.randn(20, 30).t().requires_grad_()
    torch.manual_seed(2)
    mask = dropout(torch.ones(30, 20))
    torch.manual_seed(2)
    weights = torch.randn(30, 20, generator=torch.Generator().manual_seed(3))
    (dropout.add(x, y) * weights).sum().backward()
    torch.testing.assert_close(x.grad, weights)
    torch.testing.assert_close(y.grad, weights * mask)


def test_adding_is_adding_what_was_dropped() -> None:
    dropout, x, y = Dropout(0.4), torch.randn(30, 20), torch.randn(30, 20)
    torch.manual_seed(2)
    expected = x + dropout(y)
    torch.manual_seed(2)
    torch.testing.assert_close(dropout.add(x, y), expected)


def test_it_does_nothing_when_not_training_or_at_zero() -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for dropout in (Dropout(0.5).eval(), Dropout(0.0)):
        assert torch.equal(dropout(x), x)
        assert torch.equal(dropout.add(x, y), x + y)


def test_elsewhere_than_on_a_cpu_it_is_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(8, device="meta")
    called: list[float] = []
    monkeypatch.setattr(nn.functional, "dropout", lambda x, p: called.append(p) or x)
    Dropout(0.3).add(x, x)
    assert called == [0.3]


def test_the_probability_of_a_whole_model_can_be_set() -> None:
    model = nn.Sequential(Dropout(0.1), nn.Sequential(nn.Linear(8, 8), Dropout(0.2)))
    set_dropout(model, 0.0)
    x = torch.randn(4, 8)
    torch.testing.assert_close(model(x), model[1][0](x))
    set_dropout(model, 0.9)
    assert (model(x) == 0).any()


@pytest.mark.parametrize("p", [0.9999999999, 0.99999, 1.0, 1.5, -0.1, float("nan"), float("inf")])
def test_a_probability_that_cannot_be_computed_with_is_refused_instead_of_dropping_nothing(p: float) -> None:
    with pytest.raises(ConfigError, match=f"from 0 to {MAX_DROPOUT}, but is {p}"):
        Dropout(p)
    with pytest.raises(ConfigError, match="dropout"):
        set_dropout(nn.Sequential(Dropout(0.1)), p)


def test_the_largest_probability_keeps_one_element_in_a_thousand() -> None:
    dropped = Dropout(MAX_DROPOUT)(torch.ones(4_000_000))
    num_kept = int((dropped != 0).sum())
    assert num_kept == pytest.approx(4000, abs=6 * 4000**0.5)
    assert dropped.max() == pytest.approx(1 / (1 - MAX_DROPOUT), rel=1e-2)
