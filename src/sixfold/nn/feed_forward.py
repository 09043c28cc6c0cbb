"""Position-wise feed-forward network (section 3.3)."""

from __future__ import annotations

from torch import Tensor, nn


class FeedForward(nn.Module):
    """FFN(x) = max(0, xW₁ + b₁)W₂ + b₂, the same at every position (equation 2)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position (…, d_model) on its own."""
        return self.outer(self.inner(x).relu_())
