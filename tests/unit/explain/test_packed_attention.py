"""Weights on a page: a byte each, as many as a page can hold."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
import torch
from torch import Tensor

from sixfold.explain.packed_attention import LEVELS, MOST_WEIGHTS, Layer, affordable, only_largest, pack


def unpacked(layer: Layer) -> Tensor:
    """Read the weights as the page does, before it divides by the sums."""
    levels = np.frombuffer(zlib.decompress(base64.b64decode(layer.content)), dtype=np.uint8)
    return torch.from_numpy((levels / LEVELS) ** 2).view(layer.heads, layer.queries, layer.keys)


@pytest.mark.usefixtures("seed")
def test_weights_come_back_nearly_as_they_were() -> None:
    weights = (3 * torch.randn(2, 5, 40)).softmax(dim=-1)
    layer = pack(weights, 40)
    assert layer.kept == 1.0
    torch.testing.assert_close(unpacked(layer), weights.double(), rtol=0, atol=0.004)


def test_small_weights_of_a_long_sentence_are_not_lost() -> None:
    weights = torch.full((1, 1, 512), 1 / 512)
    assert (unpacked(pack(weights, 512)) > 0).all()


@pytest.mark.usefixtures("seed")
def test_of_each_row_the_largest_weights_are_kept_and_their_share_is_told() -> None:
    weights = torch.randn(2, 6, 20).softmax(dim=-1)
    kept, layer = only_largest(weights, 3), pack(weights, 3)
    assert ((kept > 0).sum(dim=-1) == 3).all()
    torch.testing.assert_close(kept.sum(dim=-1), weights.topk(3, dim=-1).values.sum(dim=-1))
    assert abs(layer.kept - float(kept.sum(dim=-1).mean())) < 1e-3


def test_however_long_a_sentence_a_page_keeps_a_bounded_number_of_weights() -> None:
    for num_rows in (1, 100, 18 * 8 * 512, 10**6):
        assert affordable(num_rows) * num_rows <= MOST_WEIGHTS
