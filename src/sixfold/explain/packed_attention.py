"""Attention weights made small: 8 bits each, at long lengths only the largest, compressed.

A weight w is kept as round(255·√w): the root leaves small weights, as long sentences have them, apart from 0.
A reader squares, and divides each row by its sum if all of it was kept.

Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

LEVELS = 255
MOST_WEIGHTS = 2_000_000  # of one page; a sentence of some 100 tokens on either side has fewer
COMPRESSION = 6


@dataclass(frozen=True)
class Layer:
    """The weights of one layer."""

    heads: int
    queries: int
    keys: int
    kept: float  # which part of the attention was kept, on average
    content: str  # H·Q·K bytes, deflated, in base64


def pack(weights: Tensor, largest: int) -> Layer:
    """Pack the weights (H, Q, K) of one layer, of each row only the largest ones."""
    heads, queries, keys = weights.shape
    kept = only_largest(weights, largest)
    share = round(float(kept.sum(dim=-1).mean()), 4)
    return Layer(heads, queries, keys, share, compress(quantise(kept)))


def affordable(num_rows: int) -> int:
    """Return how many weights of each row may be kept if a page has so many rows."""
    return max(1, MOST_WEIGHTS // max(1, num_rows))


def only_largest(weights: Tensor, count: int) -> Tensor:
    """Return the weights (…, K) with all but the largest of each row set to 0."""
    if count >= weights.size(-1):
        return weights
    values, places = weights.topk(count, dim=-1)
    return torch.zeros_like(weights).scatter(-1, places, values)


def quantise(weights: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return weights from 0 to 1 as bytes."""
    return (weights.sqrt() * LEVELS).round().to(torch.uint8).cpu().numpy()


def compress(content: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> str:
    """Return bytes, deflated, as text."""
    return base64.b64encode(zlib.compress(content.tobytes(), COMPRESSION)).decode()
