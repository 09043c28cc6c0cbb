"""Ensembles: several models as one, which averages their probabilities.

Models that differ only in initialisation and dropout make different errors, so their average makes fewer.

Shapes: B pairs, T target positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import torch
from torch import Tensor, nn

LOWEST = torch.finfo(torch.float32).min  # the logarithm of probability 0, finite because ∞ - ∞ is NaN


class Ensemble(nn.Module):
    """Models with the same vocabulary, used as one model in training and scoring."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the averaged log-probabilities (B, T, V), which log-softmax leaves unchanged."""
        each = (
            model(*inputs).log_softmax(dim=-1) for model in self.models
        )  # lazily, to keep one model's logits at a time
        return average(each, len(self.models))


def make_ensemble(make: Callable[[], nn.Module], count: int) -> nn.Module:
    """Return one new model, or an ensemble of `count`."""
    return make() if count == 1 else Ensemble([make() for _ in range(count)])


def members_of(model: nn.Module) -> list[nn.Module]:
    """Return the models of an ensemble, or a single model as the only one."""
    return list(model.models) if isinstance(model, Ensemble) else [model]


def average(log_probs: Iterable[Tensor], count: int) -> Tensor:
    """Return the logarithm of the average of `count` probabilities, given as logarithms."""
    return reduce(log_of_sum, log_probs) - math.log(count)


def log_of_sum(first: Tensor, second: Tensor) -> Tensor:
    """Return log(exp(first) + exp(second)), with bits that do not depend on an element's position in the tensor.

    `torch.logaddexp` rounds the last few elements of a tensor differently from the rest.
    """
    larger, smaller = torch.maximum(first, second), torch.minimum(first, second)
    return larger + (smaller - larger.clamp_min(LOWEST)).exp().log1p()
