"""A model's weights by name; a matrix that several parts share has the name of the first."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]


def weights_of(model: nn.Module) -> Weights:
    """Return the current weights, without copying them."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


HEAD = "head."  # how the names of the weights begin that turn vectors into answers


def set_body(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy all weights but those of the head, which stays as it is."""
    body = {name: tensor for name, tensor in weights.items() if not name.startswith(HEAD)}
    own = {name: tensor for name, tensor in weights_of(model).items() if name.startswith(HEAD)}
    set_weights(model, {**body, **own})


@torch.no_grad()
def set_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model that has exactly these names."""
    parameters = dict(model.named_parameters())
    if odd := parameters.keys() ^ weights.keys():
        raise KeyError(f"weights and model disagree about {min(odd)}")
    for name, parameter in parameters.items():
        parameter.copy_(weights[name])
