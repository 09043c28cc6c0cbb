"""The training loss: cross-entropy with label smoothing (section 5.4).

Shapes: B pairs, M source positions, T target positions, N target tokens that are not padding, V vocabulary.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.models.transformer import Transformer
from sixfold.text.tokens import PAD_ID


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Return the summed loss of logits (N, V) against (1-ε)·one-hot + ε/V, the smoothing of Szegedy et al."""
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")


class Objective(nn.Module):
    """A model and its loss as one module, which is what a distributed wrapper needs to see."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, source: Tensor, target_in: Tensor, target_out: Tensor) -> Tensor:
        """Return the loss summed over the target tokens; padding is left out before the projection."""
        hidden = self.model.hidden(source, target_in)  # (B, T, d_model)
        real = target_out != PAD_ID
        logits = self.model.embedding.logits(hidden[real])  # (N, V)
        return smoothed_cross_entropy(logits.float(), target_out[real], self.smoothing)
