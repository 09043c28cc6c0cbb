"""What the decoder remembers between steps: keys and values, so that each step costs one position.

Shapes: S sentences, K hypotheses of each, R = S·K rows, H heads, M source positions, T target
positions so far, D head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class LayerCache:
    """One decoder layer's memory: the source's keys and values, shared by all hypotheses of a sentence,
    and the target's, one row a hypothesis, which grow by one position a step.
    """

    memory_key: Tensor  # (S, H, M, D)
    memory_value: Tensor  # (S, H, M, D)
    key: Tensor  # (R, H, T, D)
    value: Tensor  # (R, H, T, D)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Remember one more position's key and value (R, H, 1, D); return those of all positions."""
        self.key = torch.cat([self.key, key], dim=2)
        self.value = torch.cat([self.value, value], dim=2)
        return self.key, self.value


@dataclass
class DecoderCache:
    """The memory of all layers, with the mask of the source's padding."""

    layers: list[LayerCache]
    memory_mask: Tensor  # (S, 1, 1, M)
    length: int  # T

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        """Keep these sentences (None: all of them) and these rows, in this order."""
        for layer in self.layers:
            layer.key = layer.key.index_select(0, rows)
            layer.value = layer.value.index_select(0, rows)
            if sentences is not None:
                layer.memory_key = layer.memory_key.index_select(0, sentences)
                layer.memory_value = layer.memory_value.index_select(0, sentences)
        if sentences is not None:
            self.memory_mask = self.memory_mask.index_select(0, sentences)
