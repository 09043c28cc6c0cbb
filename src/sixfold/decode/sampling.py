"""Sampling: each step draws the next token of an output at random.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sixfold.decode.search import Beam, Candidate, Forbidden, Stepper, best_first

DEFAULT_SEED = 1
FEW = 256  # tokens, among which nearly always are all that top_p leaves; sorting all takes 50 times as long


@dataclass(frozen=True)
class Sampling:
    """How tokens are sampled: first the temperature applies, then each of the others narrows the choice."""

    temperature: float
    top_k: int = 0  # the k most probable tokens; 0: all
    top_p: float = 1.0  # of these, the most probable whose probabilities add up to p
    min_p: float = 0.0  # of these, those at least p times as probable as the most probable

    def weights(self, log_probs: Tensor) -> Tensor:
        """Return the unnormalised probabilities (R, V) to sample from."""
        weights = (log_probs.double() / self.temperature).softmax(dim=-1)
        if self.top_k or self.top_p < 1:
            weights = self.most_probable(weights, self.top_k or FEW)
        return self.without_improbable(weights)

    def most_probable(self, weights: Tensor, size: int) -> Tensor:
        """Return the weights (R, V) that top_k and top_p leave; of equal ones the first.

        They are looked for among the `size` greatest, and where these do not reach p together among more.
        """
        best = weights.topk(min(size, weights.size(1)), dim=1).values
        total = (best if self.top_k else weights).sum(dim=1, keepdim=True)
        counts = (best.cumsum(dim=1) - best < self.top_p * total).sum(dim=1, keepdim=True)
        least = best.gather(1, counts.clamp_min(1) - 1)
        above, equal = weights > least, weights == least
        is_first = equal.cumsum(dim=1) <= counts - above.sum(dim=1, keepdim=True)
        found = weights.where(above | (equal & is_first), 0)
        is_open = counts[:, 0] == best.size(1)
        if not self.top_k and best.size(1) < weights.size(1) and is_open.any():
            found[is_open] = self.most_probable(weights[is_open], 16 * size)
        return found

    def without_improbable(self, weights: Tensor) -> Tensor:
        """Return the weights without those that `min_p` excludes."""
        if not self.min_p:
            return weights
        return weights.masked_fill(weights < self.min_p * weights.amax(dim=-1, keepdim=True), 0)


def drawn(weights: Tensor, numbers: Sequence[float]) -> Tensor:
    """Draw a token (R,) for each row by inverse transform: a number from 0 to 1 and the cumulative weights."""
    sums = weights.cumsum(dim=-1)
    total = sums[:, -1]
    wanted = torch.tensor(numbers, dtype=sums.dtype, device=sums.device) * total
    below_total = torch.minimum(wanted, torch.nextafter(total, torch.zeros_like(total)))
    # The weights of a row with no allowed token sum to 0: whatever it draws has the log-probability NEVER.
    return torch.searchsorted(sums, below_total[:, None], right=True)[:, 0].clamp_max(sums.size(1) - 1)


class Sampler:
    """Draws tokens; each text has its own random numbers, so that the other texts of a batch do not matter.

    `places` are, for each row, the position of its text in the input and the index of the sample.
    """

    def __init__(self, sampling: Sampling, seed: int, places: Sequence[tuple[int, int]]) -> None:
        self.sampling = sampling
        # Counting never reaches the counter's high words, so streams do not overlap.
        self.streams = [
            np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, draw, place])) for place, draw in places
        ]

    def __call__(self, log_probs: Tensor, sentences: Sequence[int]) -> Tensor:
        """Draw a token for each row."""
        return drawn(self.sampling.weights(log_probs), [self.streams[i].random() for i in sentences])


@dataclass(frozen=True)
class Draws:
    """The strategy of sampling; log-probabilities are the model's, not those of the sampling distribution."""

    sampler: Sampler
    eos: int

    def candidates(self, stepper: Stepper, beams: Sequence[Beam], forbidden: Forbidden) -> list[list[Candidate]]:
        """Return one token for each output, or the end at its length limit."""
        log_probs = stepper.step([beam.prefixes[0][-1] for beam in beams], forbidden)
        drawn = self.sampler(log_probs, [beam.sentence for beam in beams]).tolist()
        tokens = [self.eos if beam.is_at_limit else token for beam, token in zip(beams, drawn, strict=True)]
        added = log_probs.gather(1, torch.tensor(tokens, device=log_probs.device)[:, None])[:, 0].tolist()
        return [
            [Candidate(beam.scores[0] + more, 0, token, token != wish)]
            for beam, more, token, wish in zip(beams, added, tokens, drawn, strict=True)
        ]

    def choose(self, beam: Beam, candidates: list[Candidate]) -> tuple[list[Candidate], list[Candidate]]:  # noqa: ARG002
        """Finish an output with its end token."""
        return best_first(candidates, self.eos, width=1)
