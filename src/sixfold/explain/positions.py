"""How a model knows where a token stands, as a table of positions and dimensions.

Learned vectors and sinusoids are added to the embeddings. Rotary positions are no vectors: they turn each pair of
numbers of a query and of a key by an angle. Their table holds the cosine and the sine of every angle, so that the
similarity of two rows tells how alike two positions turn.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sixfold.explain.packed_attention import compress
from sixfold.nn import BlockConfig, TokenStem
from sixfold.nn.positions import rotations

MIN_POSITIONS, MAX_POSITIONS = 64, 128  # that are shown
ZERO_LEVEL = 127  # the byte that encodes 0
SINUSOIDAL_BASE = 10_000.0


@dataclass(frozen=True)
class PositionTable:
    """The first positions; bytes 0, 127 and 254 encode -scale, 0 and scale."""

    kind: str  # sinusoidal, learned or rotary
    length: int
    width: int  # d_model, or d_k where queries and keys are turned
    base: float  # of the wavelengths: 2π·base^(2i/width); not for learned ones
    scale: float  # the largest absolute value
    table: str  # zlib, in base64


@torch.inference_mode()
def position_table(stem: TokenStem, config: BlockConfig, length: int) -> PositionTable:
    """Return the positions of a text of this length, limited to MIN_POSITIONS and MAX_POSITIONS."""
    num_positions = config.max_positions if config.positions == "learned" else sys.maxsize
    length = min(max(length, MIN_POSITIONS), MAX_POSITIONS, num_positions)
    is_rotary = config.positions == "rotary"
    table = turns(config, length) if is_rotary else stem.positions(0, length).float().cpu()
    scale = max(float(table.abs().max()), 1e-9)
    content = ((table / scale + 1) * ZERO_LEVEL).round().to(torch.uint8).numpy()
    base = config.rotary_base if is_rotary else SINUSOIDAL_BASE
    return PositionTable(
        config.positions, length, table.size(1), base, round(scale, 6), compress(np.ascontiguousarray(content))
    )


def turns(config: BlockConfig, length: int) -> Tensor:
    """Return the cosine and sine of each pair's angle (length, d_k), side by side."""
    found = rotations(length, config.head_widths[0], config.rotary_base)  # (2, length, d_k / 2)
    return found.permute(1, 2, 0).flatten(1)
