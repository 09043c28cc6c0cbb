"""Attention weights in few bytes: 8 bits each, compressed, and of a long sentence only the largest of each row.

A weight w is stored as round(255·√w): the square root keeps the small weights of long sentences above 0. The page
squares the bytes, and normalises each row if all of its weights were stored.

Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

LEVELS = 255
MAX_WEIGHTS = 2_000_000  # of one page; a pair of sentences of 100 tokens has fewer in a model of base size
MAX_BYTES = 100_000_000  # of a stack before they are compressed: a browser holds them all
COMPRESSION = 6


@dataclass(frozen=True)
class PackedLayer:
    """The attention weights of one layer."""

    heads: int
    queries: int
    keys: int
    kept: float  # mean sum of the stored weights of a row
    content: str  # H·Q·K bytes, zlib, in base64


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of every layer of every stack."""

    largest: int  # how many of the largest weights of each row are stored
    stacks: Mapping[str, tuple[PackedLayer, ...]]


class AttentionPacker:
    """Packs the attention weights that a model shows, layer by layer."""

    def __init__(self, num_rows: int) -> None:
        """Begin a page with so many rows of weights: those of every query of every head of every layer."""
        self.largest = max_weights_per_row(num_rows)
        self.stacks: dict[str, list[PackedLayer]] = {}

    def add(self, stack: str, weights: Tensor) -> None:
        """Pack the weights (1, H, Q, K) of the next layer of a stack."""
        self.stacks.setdefault(stack, []).append(pack(weights[0].float(), self.largest))

    def maps(self) -> AttentionMaps:
        """Return everything that was packed."""
        return AttentionMaps(self.largest, {stack: tuple(layers) for stack, layers in self.stacks.items()})


def pack(weights: Tensor, largest: int) -> PackedLayer:
    """Pack the weights (H, Q, K) of one layer, keeping the `largest` of each row."""
    heads, queries, keys = weights.shape
    kept = only_largest(weights, largest)
    kept_weight = round(float(kept.sum(dim=-1).mean()), 4)
    return PackedLayer(heads, queries, keys, kept_weight, compress(quantise(kept)))


def max_weights_per_row(num_rows: int) -> int:
    """Return how many weights a row may keep when a page has this many rows."""
    return max(1, MAX_WEIGHTS // max(1, num_rows))


def most_tokens(num_heads: int) -> int:
    """Return of how many tokens a page can hold all maps, for so many heads in all layers together."""
    return math.isqrt(MAX_BYTES // num_heads)


def only_largest(weights: Tensor, count: int) -> Tensor:
    """Return the weights (…, K) with all but the `count` largest of each row set to 0."""
    if count >= weights.size(-1):
        return weights
    values, indices = weights.topk(count, dim=-1)
    return torch.zeros_like(weights).scatter(-1, indices, values)


def quantise(weights: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return weights from 0 to 1 as bytes."""
    return (weights.sqrt() * LEVELS).round().to(torch.uint8).cpu().numpy()


def compress(content: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> str:
    """Return bytes compressed with zlib, in base64."""
    return base64.b64encode(zlib.compress(content.tobytes(), COMPRESSION)).decode()
