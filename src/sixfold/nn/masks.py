"""Masks: boolean, and True means "may attend", everywhere.

Shapes: B batch, Q query positions, K key positions. Every mask broadcasts to (B, H, Q, K).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Mask = Tensor | Literal["causal"]  # "causal" means `causal_mask`, without materialising it


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    """Let no query see the padding among the keys `tokens` (B, K); returns (B, 1, 1, K)."""
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Let position i see the positions up to i only (section 3.2.3); returns (Q, K), both `length`."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def local_mask(length: int, width: int, device: torch.device | None = None) -> Tensor:
    """Let position i see only the positions at most `width` away from it; returns (Q, K).

    This is the restricted self-attention of section 4 and the last row of table 1: the neighbourhood
    centred on a position has r = 2·width + 1 positions.
    """
    positions = torch.arange(length, device=device)
    return (positions[:, None] - positions[None, :]).abs() <= width
