"""The table of positions is what the model adds to its embeddings, or how it turns its queries and keys."""

from __future__ import annotations

import base64
import math
import zlib

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sixfold.explain.positions import ZERO_LEVEL, PositionTable, position_table
from sixfold.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from sixfold.nn.positions import RotaryPositions

pytestmark = pytest.mark.usefixtures("seed")
SHAPE = {"vocabulary": 9, "d_model": 24, "d_ff": 8, "heads": 4, "key_value_heads": 2, "layers": 1}


def table_of(kind: str, length: int = 70, **changes: object) -> tuple[DecoderOnly, PositionTable]:
    """Return a model and its table."""
    config = DecoderOnlyConfig.model_validate({**SHAPE, "positions": kind, "max_positions": 90, **changes})
    model = DecoderOnly(config)
    return model, position_table(model.stem, config, length)


def unpacked(table: PositionTable) -> NDArray[np.float64]:
    """Return the numbers as the page decodes them."""
    levels = np.frombuffer(zlib.decompress(base64.b64decode(table.table)), dtype=np.uint8).astype(float)
    return ((levels - ZERO_LEVEL) / ZERO_LEVEL * table.scale).reshape(table.length, table.width)


@pytest.mark.parametrize("kind", ["learned", "sinusoidal"])
def test_positions_that_are_added_are_shown_as_they_are(kind: str) -> None:
    model, table = table_of(kind)
    expected = model.stem.positions(0, 70).detach().numpy()
    assert (table.kind, table.length, table.width) == (kind, 70, 24)
    np.testing.assert_allclose(unpacked(table), expected, atol=table.scale / ZERO_LEVEL)


def test_of_rotary_positions_the_angles_of_each_pair_are_shown() -> None:
    _, table = table_of("rotary", d_k=6, d_v=6, rotary_base=500.0)
    assert (table.kind, table.width, table.base) == ("rotary", 6, 500.0)
    angles = np.arange(70)[:, None] * 500.0 ** (-np.arange(0, 6, 2) / 6)
    expected = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(70, 6)
    np.testing.assert_allclose(unpacked(table), expected, atol=0.01)


def test_the_similarity_of_two_rows_is_the_score_of_equal_vectors_that_are_turned_so() -> None:
    _, table = table_of("rotary", d_k=6, d_v=6)
    rows = unpacked(table)
    turned = RotaryPositions(6, 10_000.0)(torch.ones(1, 1, 70, 6))[0, 0].double()
    cosine = (rows[5] * rows[40]).sum() / math.sqrt((rows[5] ** 2).sum() * (rows[40] ** 2).sum())
    assert cosine == pytest.approx(float(turned[5] @ turned[40]) / 6, abs=0.02)


@pytest.mark.parametrize(("length", "shown"), [(3, 64), (70, 70), (1000, 90)])
def test_as_many_positions_are_shown_as_there_are_and_as_help(length: int, shown: int) -> None:
    assert table_of("learned", length)[1].length == shown
