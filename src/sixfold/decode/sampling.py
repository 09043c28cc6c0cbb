"""Random draws: each step of an output draws its next token, and never goes back.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sixfold.decode.search import Beam, Candidate, Stepper, TokenSet, best_first

DEFAULT_SEED = 1


@dataclass(frozen=True)
class Sampling:
    """Which tokens may be drawn, and how often: temperature first, then each of the others narrows the choice."""

    temperature: float
    top_k: int = 0  # the k most probable; 0: all
    top_p: float = 1.0  # of these the most probable whose probabilities reach p together
    min_p: float = 0.0  # of these the ones that are at least p times as probable as the most probable

    def weights(self, log_probs: Tensor) -> Tensor:
        """Return the weights (R, V) to draw by; those of one row need not sum to 1."""
        weights = (log_probs.double() / self.temperature).softmax(dim=-1)
        if not self.top_k and self.top_p == 1:
            return self.without_improbable(weights)
        ordered, order = weights.sort(dim=-1, descending=True, stable=True)
        if self.top_k:
            ordered[:, self.top_k :] = 0
        before = ordered.cumsum(dim=-1) - ordered
        ordered[before >= self.top_p * ordered.sum(dim=-1, keepdim=True)] = 0
        return self.without_improbable(torch.zeros_like(weights).scatter(1, order, ordered))

    def without_improbable(self, weights: Tensor) -> Tensor:
        """Return the weights without those that `min_p` leaves out."""
        if not self.min_p:
            return weights
        return weights.masked_fill(weights < self.min_p * weights.amax(dim=-1, keepdim=True), 0)


def drawn(weights: Tensor, numbers: Sequence[float]) -> Tensor:
    """Draw a token (R,) for each row by a number from 0 to 1 and the running sum of the weights."""
    sums = weights.cumsum(dim=-1)
    total = sums[:, -1]
    wanted = torch.tensor(numbers, dtype=sums.dtype, device=sums.device) * total
    below_total = torch.minimum(wanted, torch.nextafter(total, torch.zeros_like(total)))
    # A row that may not go on at all has no sum: whatever it draws has the log-probability NEVER.
    return torch.searchsorted(sums, below_total[:, None], right=True)[:, 0].clamp_max(sums.size(1) - 1)


class Sampler:
    """Draws tokens; each text has its own random numbers, so that its company does not matter.

    `places` are the place of each row's text in the input and the number of its draw.
    """

    def __init__(self, sampling: Sampling, seed: int, places: Sequence[tuple[int, int]]) -> None:
        self.sampling = sampling
        # A counter's high words are never reached by counting, so no two streams overlap.
        self.streams = [
            np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, draw, place])) for place, draw in places
        ]

    def __call__(self, log_probs: Tensor, sentences: Sequence[int]) -> Tensor:
        """Draw a token for each row."""
        return drawn(self.sampling.weights(log_probs), [self.streams[i].random() for i in sentences])


@dataclass(frozen=True)
class Draws:
    """The strategy of a search that draws; log-probabilities are the model's, whatever the draws followed."""

    sampler: Sampler
    eos: int

    def candidates(
        self, stepper: Stepper, beams: Sequence[Beam], forbidden: Sequence[TokenSet] | None
    ) -> list[list[Candidate]]:
        """Return one token for each output; at its length limit, the end."""
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
