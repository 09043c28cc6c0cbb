"""The log-probability of given translations under a model, in total and per token.

Shapes: B pairs, M source positions, T target positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.batches import pad
from sixfold.decode.token_budget import of_one_length
from sixfold.models.ensemble import Ensemble
from sixfold.text import SpecialIds

WIDTH = 4  # a pair takes as much memory as this many hypotheses


@dataclass(frozen=True)
class Score:
    """The score of one given translation."""

    log_probability: float  # of all tokens and the end token
    num_tokens: int  # end token included
    is_cut: bool = False  # a side was truncated to the model's input limit


@dataclass(frozen=True)
class TokenScore:
    """The score of one token, given those before it."""

    token: int
    log_probability: float
    alternatives: tuple[
        tuple[int, float], ...
    ]  # the most probable tokens at this position and their log-probabilities


class Scorer:
    """Scores token ids (without special tokens) with the averaged probabilities of models."""

    def __init__(self, models: Sequence[nn.Module], special: SpecialIds) -> None:
        self.model = models[0] if len(models) == 1 else Ensemble(models)
        self.special = special

    def scores(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], on_progress: OnProgress = no_progress
    ) -> list[Score]:
        """Return the score of each pair."""
        lengths = [max(1, len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
        scores: list[Score] = [Score(0.0, 0)] * len(sources)
        done = 0
        for batch in of_one_length(lengths, WIDTH):
            found = score_ids(self.model, self.special, [sources[i] for i in batch], [targets[i] for i in batch])
            for i, score in zip(batch, found, strict=True):
                scores[i] = score
            on_progress(done := done + len(batch))
        return scores

    def token_scores(
        self, sources: Sequence[list[int]], outputs: Sequence[Sequence[int]], num_alternatives: int
    ) -> list[list[TokenScore]]:
        """Return the scores of the tokens of each output, which has an end token unless it is empty."""
        scores: list[list[TokenScore]] = [[] for _ in sources]
        lengths = [max(len(s), len(t)) if t else 0 for s, t in zip(sources, outputs, strict=True)]
        for batch in of_one_length(lengths, WIDTH):
            targets = [list(outputs[i][:-1]) for i in batch]
            found = self.of_batch([sources[i] for i in batch], targets, num_alternatives)
            for i, tokens in zip(batch, found, strict=True):
                scores[i] = tokens[: len(outputs[i])]
        return scores

    @torch.inference_mode()
    def of_batch(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], num_alternatives: int
    ) -> list[list[TokenScore]]:
        """Return the scores of all target positions of one batch."""
        source, target_in, target_out = forced_batch(self.model, self.special, sources, targets)
        return token_scores(self.model(source, target_in).log_softmax(dim=-1), target_out, num_alternatives)


@torch.inference_mode()
def score_ids(
    model: nn.Module, special: SpecialIds, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> list[Score]:
    """Score one batch of pairs of token ids (without special ones)."""
    source, target_in, target_out = forced_batch(model, special, sources, targets)
    totals = target_log_probabilities(model(source, target_in), target_out, special.pad).sum(dim=1)
    return [Score(total, len(ids) + 1) for total, ids in zip(totals.tolist(), targets, strict=True)]


def forced_batch(
    model: nn.Module, special: SpecialIds, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return source (B, M), the decoder's input (B, T) and its targets (B, T), with special tokens added."""
    device = next(model.parameters()).device
    rows = (
        [[*ids, special.eos] for ids in sources],
        [[special.bos, *ids] for ids in targets],
        [[*ids, special.eos] for ids in targets],
    )
    source, target_in, target_out = (torch.from_numpy(pad(each, special.pad)).to(device) for each in rows)
    return source, target_in, target_out


def token_scores(log_probs: Tensor, target_out: Tensor, num_alternatives: int) -> list[list[TokenScore]]:
    """Return the score of each target token (B, T) by log_probs (B, T, V), with the most probable tokens there."""
    chosen = log_probs.gather(2, target_out[:, :, None])[:, :, 0]
    best, tokens = log_probs.topk(min(num_alternatives, log_probs.size(-1)), dim=-1)
    columns = (target_out.tolist(), chosen.tolist(), tokens.tolist(), best.tolist())
    return [
        [TokenScore(*each[:2], tuple(zip(*each[2:], strict=True))) for each in zip(*row, strict=True)]
        for row in zip(*columns, strict=True)
    ]


def target_log_probabilities(logits: Tensor, target_out: Tensor, pad_id: int) -> Tensor:
    """Return the log-probability (B, T) of each target token, 0 at padding."""
    log_probs = logits.log_softmax(dim=-1).gather(2, target_out[:, :, None])[:, :, 0]
    return log_probs.masked_fill(target_out == pad_id, 0.0)
