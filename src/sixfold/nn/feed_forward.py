"""Position-wise feed-forward network (section 3.3)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.nn.config import Activation, BlockConfig

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """FFN(x) = max(0, xW₁ + b₁)W₂ + b₂, the same at every position (equation 2).

    A gated network multiplies the activation by a second projection of x (Shazeer, 2020).
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff, bias=config.feed_forward_bias)
        self.outer = nn.Linear(config.d_ff, config.d_model, bias=config.feed_forward_bias)
        self.gate = nn.Linear(config.d_model, config.d_ff, bias=config.feed_forward_bias) if config.gated else None
        self.activation = ACTIVATIONS[config.activation]
        for linear in filter(None, (self.inner, self.outer, self.gate)):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position (…, d_model) on its own."""
        hidden = self.activation(self.inner(x))
        return self.outer(hidden if self.gate is None else hidden * self.gate(x))
