"""Packed attention weights: a byte each, and a bounded number on a page."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
import torch
from torch import Tensor

from sixfold.explain.packed_attention import (
    LEVELS,
    MAX_WEIGHTS,
    PackedLayer,
    max_weights_per_row,
    only_largest,
    pack,
)


def unpacked(layer: PackedLayer) -> Tensor:
    """Return the weights as the page decodes them, before it normalises the rows."""
    levels = np.frombuffer(zlib.decompress(base64.b64decode(layer.content)), dtype=np.uint8)
    return torch.from_numpy((levels / LEVELS) ** 2).view(layer.heads, layer.queries, layer.keys)


@pytest.mark.usefixtures("seed")
def test_unpacked_weights_are_close_to_the_original() -> None:
    weights = (3 * torch.randn(2, 5, 40)).softmax(dim=-1)
    layer = pack(weights, 40)
    assert layer.kept == 1.0
    torch.testing.assert_close(unpacked(layer), weights.double(), rtol=0, atol=0.004)


def test_small_weights_of_a_long_sentence_are_not_rounded_to_zero() -> None:
    weights = torch.full((1, 1, 512), 1 / 512)
    assert (unpacked(pack(weights, 512)) > 0).all()


@pytest.mark.usefixtures("seed")
def test_the_largest_weights_of_each_row_are_kept_and_their_sum_reported() -> None:
    weights = torch.randn(2, 6, 20).softmax(dim=-1)
    kept, layer = only_largest(weights, 3), pack(weights, 3)
    assert ((kept > 0).sum(dim=-1) == 3).all()
    torch.testing.assert_close(kept.sum(dim=-1), weights.topk(3, dim=-1).values.sum(dim=-1))
    assert abs(layer.kept - float(kept.sum(dim=-1).mean())) < 1e-3


def test_a_page_has_a_bounded_number_of_weights_for_any_length() -> None:
    for num_rows in (1, 100, 18 * 8 * 512, 10**6):
        assert max_weights_per_row(num_rows) * num_rows <= MAX_WEIGHTS
