"""The log-probability a model gives to translations that are already there.

Shapes: B pairs, T target positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sixfold.data.batches import pad
from sixfold.models.transformer import Transformer
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True)
class Score:
    """What a model thinks of one given translation."""

    log_probability: float  # of all its tokens and its end mark
    num_tokens: int  # its end mark included
    is_cut: bool = False  # a side was longer than a model reads at once, and its end is not scored


@torch.inference_mode()
def score_ids(model: Transformer, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[Score]:
    """Score one batch of pairs of token ids (without marks)."""
    device = next(model.parameters()).device
    source = torch.from_numpy(pad([[*ids, EOS_ID] for ids in sources])).to(device)
    target_in = torch.from_numpy(pad([[BOS_ID, *ids] for ids in targets])).to(device)
    target_out = torch.from_numpy(pad([[*ids, EOS_ID] for ids in targets])).to(device)
    totals = target_log_probabilities(model(source, target_in), target_out).sum(dim=1)
    return [Score(total, len(ids) + 1) for total, ids in zip(totals.tolist(), targets, strict=True)]


def target_log_probabilities(logits: Tensor, target_out: Tensor) -> Tensor:
    """Return the log-probability (B, T) of each target token, 0 at padding."""
    log_probs = logits.log_softmax(dim=-1).gather(2, target_out[:, :, None])[:, :, 0]
    return log_probs.masked_fill(target_out == PAD_ID, 0.0)
