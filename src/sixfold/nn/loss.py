"""The training loss: cross-entropy with label smoothing (section 5.4), fused with the projection to logits.

The target distribution is (1-ε)·one-hot + ε/V (Szegedy et al.).

Shapes: N target tokens that are not padding, V vocabulary.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx

SMALLEST_PROBABILITY = 1e-30
ROWS_AT_ONCE = 512  # their logits fit in the cache, and the products are still large


def projected_loss(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Return the summed loss of the logits hidden·Wᵀ, for hidden (N, d_model) and W (V, d_model)."""
    if hidden.is_cpu:
        loss: Tensor = ProjectedLoss.apply(hidden, weight, targets, smoothing)  # type: ignore[no-untyped-call]
        return loss
    logits = F.linear(hidden, weight).float()
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")


class ProjectedLoss(torch.autograd.Function):
    """The loss, computed together with its gradient, so that only a few rows of logits exist at a time.

    With z the logits, p their softmax and t the target, the loss of a row is log Σ exp z - (1-ε)·z_t - ε/V·Σz, and
    its gradient with respect to z is p - (1-ε)·one-hot - ε/V. The terms with ε/V are the same for the whole
    vocabulary: they are products with the sum of all rows of W and need no logits.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """Add up the loss and both gradients, some rows at a time."""
        uniform, all_rows, all_hidden = smoothing / weight.size(0), weight.sum(dim=0), hidden.sum(dim=0)
        loss = -uniform * (all_hidden @ all_rows).double()
        hidden_gradient, weight_gradient = torch.empty_like(hidden), torch.empty_like(weight)
        room = hidden.new_empty(min(ROWS_AT_ONCE, hidden.size(0)), weight.size(0))
        parts = (side.split(ROWS_AT_ONCE) for side in (hidden, hidden_gradient, targets[:, None]))
        for number, (rows, rows_gradient, target) in enumerate(zip(*parts, strict=True)):
            logits = torch.mm(rows, weight.t(), out=room[: len(rows)])
            of_targets = logits.gather(1, target)
            probabilities = torch.softmax(logits, dim=1, out=logits)
            loss += log_totals(of_targets, probabilities.gather(1, target), rows, weight).sum()
            loss -= (1 - smoothing) * of_targets.sum()
            probabilities.scatter_add_(1, target, of_targets.new_tensor(smoothing - 1).expand_as(target))
            torch.mm(probabilities, weight, out=rows_gradient)
            weight_gradient.addmm_(
                probabilities.t(), rows, beta=min(number, 1)
            )  # the first row block has nothing to add to
        hidden_gradient.sub_(all_rows, alpha=uniform)
        weight_gradient.sub_(all_hidden, alpha=uniform)
        ctx.gradients = [(hidden_gradient, weight_gradient)]  # type: ignore[attr-defined]
        return loss.to(hidden.dtype)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Return the gradients computed by `forward`; they are not copied, so this works once."""
        hidden_gradient, weight_gradient = ctx.gradients.pop()  # type: ignore[attr-defined]
        return hidden_gradient.mul_(gradient), weight_gradient.mul_(gradient), None, None


def log_totals(logits: Tensor, probabilities: Tensor, hidden: Tensor, weight: Tensor) -> Tensor:
    """Return log Σ exp z of each row, from one logit (N, 1) and its probability: z - log p.

    A row whose probability is too small for an exact logarithm is computed again as a whole.
    """
    totals = logits - probabilities.log()
    lost = ~(probabilities[:, 0] > SMALLEST_PROBABILITY)
    if lost.any():
        totals[lost] = F.linear(hidden[lost], weight).logsumexp(dim=1, keepdim=True)
    return totals


def mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """Compute in bfloat16 on a GPU that supports it, and in float32 on a CPU."""
    is_safe = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return torch.autocast("cuda", dtype=torch.bfloat16) if is_safe else nullcontext()
