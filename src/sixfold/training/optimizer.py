"""Adam as in section 5.3, AdamW with parameter groups, and their state as named tensors for checkpoints."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from sixfold.models.ensemble import members_of
from sixfold.training.recipe import TrainConfig

BETA1 = 0.9
LAYER = re.compile(r"(\w+)\.layers\.(\d+)\.")
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Return the optimizer of a recipe; the learning rate is set at every step."""
    freeze(model, config.frozen)
    betas, device = (BETA1, config.beta2), next(model.parameters()).device.type
    fused = True if device in ("cpu", "cuda") else None
    if config.optimizer == "adam":
        groups = [{"params": trainable(model), "rate_factor": 1.0}]
        return torch.optim.Adam(groups, lr=0.0, betas=betas, eps=config.epsilon, fused=fused)
    return torch.optim.AdamW(
        list(parameter_groups(model, config)), lr=0.0, betas=betas, eps=config.epsilon, fused=fused
    )


def freeze(model: nn.Module, frozen: Sequence[str]) -> None:
    """Freeze the weights whose names begin with one of these prefixes."""
    for member in members_of(model):
        for name, parameter in member.named_parameters():
            parameter.requires_grad_(not name.startswith(tuple(frozen)))


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are not frozen."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def parameter_groups(model: nn.Module, config: TrainConfig) -> Iterator[dict[str, object]]:
    """Yield groups of parameters: norms and biases have no weight decay, lower layers a lower learning rate."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for member in members_of(model):
        tops = heights(member)
        for name, parameter in member.named_parameters():
            if parameter.requires_grad:
                decay = config.weight_decay if parameter.dim() > 1 else 0.0
                rate_factor = config.layer_decay ** layers_above(name, tops)
                groups.setdefault((decay, rate_factor), []).append(parameter)
    for (decay, rate_factor), parameters in groups.items():
        yield {"params": parameters, "weight_decay": decay, "rate_factor": rate_factor}


def heights(model: nn.Module) -> dict[str, int]:
    """Return the number of layers of each stack of a model."""
    found: dict[str, int] = {}
    for name, _ in model.named_parameters():
        if match := LAYER.match(name):
            found[match[1]] = max(found.get(match[1], 0), int(match[2]) + 1)
    return found


def layers_above(name: str, tops: dict[str, int]) -> int:
    """Return how many layers are above a weight: all for embeddings and positions, none for heads and norms."""
    if match := LAYER.match(name):
        return tops[match[1]] - int(match[2])
    is_stem = "embedding" in name or "positions" in name
    return max(tops.values(), default=0) + 1 if is_stem else 0


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of each group, scaled by the group's factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate_factor"]


def clip_each(model: nn.Module, max_norm: float) -> float:
    """Clip the gradients of each member of an ensemble separately; return the norm over all members."""
    return math.hypot(*(clip(member, max_norm) for member in members_of(model)))


def clip(model: nn.Module, max_norm: float) -> float:
    """Clip the gradients to a norm, unless that is 0; return their norm before."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
    if max_norm and norm > max_norm:
        torch._foreach_mul_(gradients, max_norm / norm)
    return norm


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the optimizer's state by parameter name."""
    return {
        f"{kind}.{name}": tensor
        for name, parameter in model.named_parameters()
        for kind, tensor in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Restore a state made by `optimizer_tensors`; parameters have none before the first step, or if frozen."""
    is_fused = bool(optimizer.defaults["fused"])  # then the step counter is on the parameter's device
    for name, parameter in model.named_parameters():
        state = {kind: tensors[f"{kind}.{name}"] for kind in MOMENTS if f"{kind}.{name}" in tensors}
        if state:
            optimizer.state[parameter] = {
                kind: tensor.to(parameter.device) if is_fused or kind != "step" else tensor
                for kind, tensor in state.items()
            }
