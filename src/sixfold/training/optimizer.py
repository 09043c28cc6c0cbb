"""Adam as in section 5.3, with its state as plain named tensors that a checkpoint can hold."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sixfold.models.ensemble import members_of

BETAS, EPSILON = (0.9, 0.98), 1e-9


def make_adam(model: nn.Module) -> torch.optim.Adam:
    """Return Adam with β₁ = 0.9, β₂ = 0.98 and ε = 1e-9; the learning rate is set at every step."""
    device = next(model.parameters()).device.type
    return torch.optim.Adam(
        model.parameters(),
        lr=0.0,
        betas=BETAS,
        eps=EPSILON,
        fused=True if device in ("cpu", "cuda") else None,
    )


def clip_each(model: nn.Module, max_norm: float) -> float:
    """Scale each member's gradients down to a norm, as if it were alone; return the norm that all of them had."""
    return math.hypot(*(clip(member, max_norm) for member in members_of(model)))


def clip(model: nn.Module, max_norm: float) -> float:
    """Scale the gradients down to a norm, if it is not 0 and they exceed it; return what their norm was."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
    if max_norm and norm > max_norm:
        torch._foreach_mul_(gradients, max_norm / norm)
    return norm


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use this learning rate from the next step on."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the optimizer's state by parameter name."""
    return {
        f"{kind}.{name}": tensor
        for name, parameter in model.named_parameters()
        for kind, tensor in optimizer.state[parameter].items()
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put back a state made by `optimizer_tensors`; before the first step there is none."""
    is_fused = bool(optimizer.defaults["fused"])  # then the count of steps lives where the parameter does
    for name, parameter in model.named_parameters():
        kinds = [kind for kind in ("step", "exp_avg", "exp_avg_sq") if f"{kind}.{name}" in tensors]
        state = {kind: tensors[f"{kind}.{name}"] for kind in kinds}
        optimizer.state[parameter] = {
            kind: tensor.to(parameter.device) if is_fused or kind != "step" else tensor
            for kind, tensor in state.items()
        }
