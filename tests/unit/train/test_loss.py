"""The training loss, against its definition in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sixfold.models.transformer import Transformer, TransformerConfig
from sixfold.text.tokens import PAD_ID
from sixfold.train.loss import Objective, smoothed_cross_entropy

pytestmark = pytest.mark.usefixtures("seed")

CONFIG = TransformerConfig(
    encoder_layers=1, decoder_layers=1, d_model=8, d_ff=16, heads=2, dropout=0, vocabulary=13
)
SOURCE = torch.tensor([[5, 6, 7, 2], [8, 2, PAD_ID, PAD_ID]])
TARGET_IN = torch.tensor([[1, 9, 10], [1, 11, PAD_ID]])
TARGET_OUT = torch.tensor([[9, 10, 2], [11, 2, PAD_ID]])


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


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_is_the_cross_entropy_against_smoothed_targets(smoothing: float) -> None:
    logits, targets = torch.randn(7, 11, dtype=torch.float64), torch.randint(11, (7,))
    found = smoothed_cross_entropy(logits, targets, smoothing)
    assert float(found) == pytest.approx(by_definition(logits, targets, smoothing), rel=1e-12)


def test_the_loss_is_a_sum_over_tokens() -> None:
    logits, targets = torch.randn(6, 11, dtype=torch.float64), torch.randint(11, (6,))
    parts = smoothed_cross_entropy(logits[:2], targets[:2], 0.1) + smoothed_cross_entropy(
        logits[2:], targets[2:], 0.1
    )
    assert float(parts) == pytest.approx(float(smoothed_cross_entropy(logits, targets, 0.1)), rel=1e-12)


def test_the_objective_is_the_loss_of_the_real_target_tokens() -> None:
    model = Transformer(CONFIG).double()
    real = TARGET_OUT != PAD_ID
    expected = by_definition(model(SOURCE, TARGET_IN)[real].detach(), TARGET_OUT[real], 0.1)
    found = float(Objective(model, 0.1)(SOURCE, TARGET_IN, TARGET_OUT).detach())
    assert found == pytest.approx(expected, rel=1e-6)  # the loss itself is computed in float32


def test_padding_contributes_nothing() -> None:
    objective = Objective(Transformer(CONFIG), 0.1)
    padded = [torch.cat([each, torch.full((2, 3), PAD_ID)], dim=1) for each in (SOURCE, TARGET_IN, TARGET_OUT)]
    with torch.no_grad():
        plain = float(objective(SOURCE, TARGET_IN, TARGET_OUT))
        assert float(objective(*padded)) == pytest.approx(plain, rel=1e-6)


def test_the_gradient_of_a_batch_is_that_of_its_rows() -> None:
    model = Transformer(CONFIG).double()
    objective = Objective(model, 0.1)
    objective(SOURCE, TARGET_IN, TARGET_OUT).backward()
    together = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    for row in range(2):
        objective(SOURCE[[row]], TARGET_IN[[row]], TARGET_OUT[[row]]).backward()
    alone = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    torch.testing.assert_close(alone, together, rtol=1e-5, atol=1e-6)
