"""Several models as one: the average of their probabilities.

Shapes: R rows, V vocabulary, B pairs, T target positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sixfold.decode.search import Stepper
from sixfold.models.transformer import Transformer


def average(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the average probability."""
    return torch.stack(list(log_probs)).logsumexp(dim=0) - math.log(len(log_probs))


class EnsembleStepper:
    """Several steppers as a search sees one."""

    def __init__(self, steppers: Sequence[Stepper]) -> None:
        self.steppers = steppers

    def step(self, tokens: Tensor) -> Tensor:
        """Return the averaged log-probabilities (R, V) of the next token."""
        return average([stepper.step(tokens) for stepper in self.steppers])

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        """Keep these sentences and rows of every model."""
        for stepper in self.steppers:
            stepper.select(sentences, rows)


class Ensemble(nn.Module):
    """Several models as scoring sees one."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the averaged log-probabilities (B, T, V), which are their own log-softmax."""
        return average([model(source, target_in).log_softmax(dim=-1) for model in self.models])
