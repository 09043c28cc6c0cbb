"""Position-wise feed-forward network (section 3.3)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.kernels import activation as kernel
from sixfold.kernels.activation import Curve
from sixfold.nn.config import Activation, BlockConfig

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
}
CURVES: dict[Activation, Curve] = {  # those of the compiled kernel
    "gelu_tanh": Curve(2 * math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi) * 0.044715),
    "quick_gelu": Curve(1.702),
    "silu": Curve(1.0),
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
        self.activation, self.curve = ACTIVATIONS[config.activation], CURVES.get(config.activation)
        for linear in filter(None, (self.inner, self.outer, self.gate)):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position (…, d_model) independently."""
        return self.outer(self.hidden(x))

    def hidden(self, x: Tensor) -> Tensor:
        """Return the activations (…, d_ff)."""
        gate = None if self.gate is None else self.gate(x)
        if self.curve is not None and kernel.is_possible(x):
            return kernel.activate(F.linear(x, self.inner.weight), self.inner.bias, gate, self.curve)
        hidden = self.activation(self.inner(x))
        return hidden if gate is None else hidden * gate
