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


class Sampler:
    """Draws tokens; each text has its own random numbers, so that its company does not matter.

    `places` are the place of each row's text in the input and the number of its draw.
    """

    def __init__(
        self, temperature: float, top_k: int, top_p: float, seed: int, places: Sequence[tuple[int, int]]
    ) -> None:
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        # A counter's high words are never reached by counting, so no two streams overlap.
        self.streams = [
            np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, draw, place])) for place, draw in places
        ]

    def __call__(self, log_probs: Tensor, sentences: Sequence[int]) -> Tensor:
        """Draw a token for each row, by one random number and the running sum of the probabilities."""
        sums = self.probabilities(log_probs).cumsum(dim=-1)
        drawn = torch.tensor([self.streams[i].random() for i in sentences], dtype=sums.dtype, device=sums.device)
        total = sums[:, -1]
        below_total = torch.minimum(drawn * total, torch.nextafter(total, torch.zeros_like(total)))
        # A row that may not go on at all has no sum: whatever it draws has the log-probability NEVER.
        return torch.searchsorted(sums, below_total[:, None], right=True)[:, 0].clamp_max(sums.size(1) - 1)

    def probabilities(self, log_probs: Tensor) -> Tensor:
        """Return the weights (R, V) to draw by: temperature first, then the k best, of these the p likeliest."""
        weights = (log_probs.double() / self.temperature).softmax(dim=-1)
        if not self.top_k and self.top_p == 1:
            return weights
        ordered, order = weights.sort(dim=-1, descending=True, stable=True)
        if self.top_k:
            ordered[:, self.top_k :] = 0
        before = ordered.cumsum(dim=-1) - ordered
        ordered[before >= self.top_p * ordered.sum(dim=-1, keepdim=True)] = 0
        return torch.zeros_like(weights).scatter(1, order, ordered)


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
