"""Several Transformers as one model: the average of their probabilities.

Models that differ only in their random start and their dropout err in different places, so their average errs
less.

Shapes: B pairs, M source positions, T target positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import cast

import torch
from torch import Tensor, nn

from sixfold.models.transformer import Transformer, TransformerConfig

LOWEST = torch.finfo(torch.float32).min  # two probabilities of 0 are one of 0: no infinity is taken from another


class Ensemble(nn.Module):
    """Transformers that know the same tokens, as training and scoring see one."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the averaged log-probabilities (B, T, V), which are their own log-softmax."""
        each = (model(source, target_in).log_softmax(dim=-1) for model in self.models)  # one after the other
        return average(each, len(self.models))

    @property
    def members(self) -> list[Transformer]:
        """The models one by one."""
        return cast("list[Transformer]", list(self.models))

    @property
    def config(self) -> TransformerConfig:
        """The shape of each, and how many there are."""
        return self.members[0].config.model_copy(update={"members": len(self.models)})


Model = Transformer | Ensemble


def make_model(config: TransformerConfig) -> Model:
    """Return a model with random weights, of as many members as the configuration says."""
    if config.members == 1:
        return Transformer(config)
    alone = config.model_copy(update={"members": 1})
    return Ensemble([Transformer(alone) for _ in range(config.members)])


def average(log_probs: Iterable[Tensor], count: int) -> Tensor:
    """Return the logarithm of the average of so many probabilities, given as logarithms."""
    return reduce(log_of_sum, log_probs) - math.log(count)


def log_of_sum(first: Tensor, second: Tensor) -> Tensor:
    """Return log(exp(first) + exp(second)) with the same bits wherever in a tensor a number stands.

    `torch.logaddexp` rounds the last few numbers of a tensor in another way than the rest.
    """
    larger, smaller = torch.maximum(first, second), torch.minimum(first, second)
    return larger + (smaller - larger.clamp_min(LOWEST)).exp().log1p()
