"""Several Transformers as one model: the average of their probabilities.

Models that differ only in their random start and their dropout err in different places, so their average errs
less.

Shapes: B pairs, M source positions, T target positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import cast

import torch
from torch import Tensor, nn

from sixfold.models.transformer import Transformer, TransformerConfig


class Ensemble(nn.Module):
    """Transformers that know the same tokens, as training and scoring see one."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the averaged log-probabilities (B, T, V), which are their own log-softmax."""
        return average([model(source, target_in).log_softmax(dim=-1) for model in self.models])

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


def average(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the average probability."""
    return reduce(torch.logaddexp, log_probs) - math.log(len(log_probs))
