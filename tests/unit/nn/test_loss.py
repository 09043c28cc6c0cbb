"""The training loss, against its definition in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sixfold.nn.loss import ROWS_AT_ONCE, projected_loss

pytestmark = pytest.mark.usefixtures("seed")


def by_definition(logits: Tensor, targets: Tensor, smoothing: float) -> float:
    """Return the cross-entropy against (1-ε)·one-hot + ε/V, token by token."""
    total = 0.0
    for row, target in zip(logits.double(), targets.tolist(), strict=True):
        exponentials = row.exp()
        log_probabilities = (exponentials / exponentials.sum()).log().tolist()
        vocabulary = len(log_probabilities)
        for token, log_probability in enumerate(log_probabilities):
            wanted = (1 - smoothing) * (token == target) + smoothing / vocabulary
            total -= wanted * log_probability
    return total


def leaves(num_tokens: int, vocabulary: int = 11, spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return hidden states, a projection and targets, all in float64."""
    hidden = torch.randn(num_tokens, 6, dtype=torch.float64).mul_(spread).requires_grad_()
    weight = torch.randn(vocabulary, 6, dtype=torch.float64).requires_grad_()
    return hidden, weight, torch.randint(vocabulary, (num_tokens,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_is_the_cross_entropy_against_smoothed_targets(smoothing: float) -> None:
    hidden, weight, targets = leaves(7)
    expected = by_definition((hidden @ weight.t()).detach(), targets, smoothing)
    found = projected_loss(hidden, weight, targets, smoothing).detach()
    assert float(found) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("num_tokens", [1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 2 * ROWS_AT_ONCE + 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("spread", [1.0, 500.0])
def test_loss_and_gradients_are_those_of_torch_however_many_parts_there_are(
    num_tokens: int, smoothing: float, spread: float
) -> None:
    hidden, weight, targets = leaves(num_tokens, spread=spread)
    found = 0.3 * projected_loss(hidden, weight, targets, smoothing)
    found_gradients = torch.autograd.grad(found, [hidden, weight])
    logits = hidden @ weight.t()
    expected = 0.3 * cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    expected_gradients = torch.autograd.grad(expected, [hidden, weight])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found_gradients, expected_gradients, rtol=1e-9, atol=1e-9)


def test_going_back_twice_is_an_error_and_not_a_wrong_gradient() -> None:
    hidden, weight, targets = leaves(7)
    loss = projected_loss(hidden, weight, targets, 0.1)
    loss.backward(retain_graph=True)
    with pytest.raises(IndexError):
        loss.backward()


def test_a_number_that_is_not_finite_shows_in_the_loss() -> None:
    hidden, weight, targets = leaves(7)
    for number in (float("nan"), float("inf")):
        broken = hidden.detach().clone()
        broken[3, 2] = number
        assert not projected_loss(broken, weight.detach(), targets, 0.1).isfinite()
