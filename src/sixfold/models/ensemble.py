"""Several models as one: the average of their probabilities.

Models that differ only in their random start and their dropout err in different places, so their average errs
less.

Shapes: B pairs, T target positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import torch
from torch import Tensor, nn

LOWEST = torch.finfo(torch.float32).min  # two probabilities of 0 are one of 0: no infinity is taken from another


class Ensemble(nn.Module):
    """Models that know the same tokens, as training and scoring see one."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the averaged log-probabilities (B, T, V), which are their own log-softmax."""
        each = (model(*inputs).log_softmax(dim=-1) for model in self.models)  # one after the other
        return average(each, len(self.models))


def make_ensemble(make: Callable[[], nn.Module], count: int) -> nn.Module:
    """Return one new model, or so many as one."""
    return make() if count == 1 else Ensemble([make() for _ in range(count)])


def members_of(model: nn.Module) -> list[nn.Module]:
    """Return the models of an ensemble one by one, or a model that stands alone."""
    return list(model.models) if isinstance(model, Ensemble) else [model]


def average(log_probs: Iterable[Tensor], count: int) -> Tensor:
    """Return the logarithm of the average of so many probabilities, given as logarithms."""
    return reduce(log_of_sum, log_probs) - math.log(count)


def log_of_sum(first: Tensor, second: Tensor) -> Tensor:
    """Return log(exp(first) + exp(second)) with the same bits wherever in a tensor a number stands.

    `torch.logaddexp` rounds the last few numbers of a tensor in another way than the rest.
    """
    larger, smaller = torch.maximum(first, second), torch.minimum(first, second)
    return larger + (smaller - larger.clamp_min(LOWEST)).exp().log1p()
