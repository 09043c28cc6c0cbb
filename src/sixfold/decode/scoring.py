"""The log-probability a model gives to translations that are already there, as a whole and token by token.

Shapes: B pairs, M source positions, T target positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sixfold.data.batches import pad
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True)
class Score:
    """What a model thinks of one given translation."""

    log_probability: float  # of all its tokens and its end mark
    num_tokens: int  # its end mark included
    is_cut: bool = False  # a side was longer than a model reads at once, and its end is not scored


@dataclass(frozen=True)
class TokenScore:
    """What a model thinks of one token of a translation, given those before it."""

    token: int
    log_probability: float
    alternatives: tuple[tuple[int, float], ...]  # the most probable tokens here and their log-probabilities


@torch.inference_mode()
def score_ids(model: nn.Module, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[Score]:
    """Score one batch of pairs of token ids (without marks)."""
    source, target_in, target_out = forced_batch(model, sources, targets)
    totals = target_log_probabilities(model(source, target_in), target_out).sum(dim=1)
    return [Score(total, len(ids) + 1) for total, ids in zip(totals.tolist(), targets, strict=True)]


def forced_batch(
    model: nn.Module, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return source (B, M), the decoder's input (B, T) and what it should answer (B, T), marks added."""
    device = next(model.parameters()).device
    rows = (
        [[*ids, EOS_ID] for ids in sources],
        [[BOS_ID, *ids] for ids in targets],
        [[*ids, EOS_ID] for ids in targets],
    )
    source, target_in, target_out = (torch.from_numpy(pad(each)).to(device) for each in rows)
    return source, target_in, target_out


def token_scores(logits: Tensor, target_out: Tensor, num_alternatives: int) -> list[list[TokenScore]]:
    """Return the score of each target token (B, T) under logits (B, T, V), with the most probable tokens there."""
    log_probs = logits.log_softmax(dim=-1)
    chosen = log_probs.gather(2, target_out[:, :, None])[:, :, 0]
    best, tokens = log_probs.topk(min(num_alternatives, log_probs.size(-1)), dim=-1)
    columns = (target_out.tolist(), chosen.tolist(), tokens.tolist(), best.tolist())
    return [
        [TokenScore(*each[:2], tuple(zip(*each[2:], strict=True))) for each in zip(*row, strict=True)]
        for row in zip(*columns, strict=True)
    ]


def target_log_probabilities(logits: Tensor, target_out: Tensor) -> Tensor:
    """Return the log-probability (B, T) of each target token, 0 at padding."""
    log_probs = logits.log_softmax(dim=-1).gather(2, target_out[:, :, None])[:, :, 0]
    return log_probs.masked_fill(target_out == PAD_ID, 0.0)
