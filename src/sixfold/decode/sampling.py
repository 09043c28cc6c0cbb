"""Writing one token after the other, never going back: the most probable one, or one drawn at random.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sixfold.decode.search import Hypothesis, Rule, Stepper, finished_hypothesis, predict

Choose = Callable[[Tensor, Sequence[int]], Tensor]
"""From log-probabilities (R, V) and which input each row is to the token (R,) that comes next."""


class Chosen(NamedTuple):
    """One more token of one output."""

    sentence: int  # which input
    token: int
    log_prob: float
    is_cut: bool  # it is the end mark, and the length limit chose it


def most_probable(log_probs: Tensor, sentences: Sequence[int]) -> Tensor:  # noqa: ARG001
    """Choose the most probable token."""
    return log_probs.argmax(dim=-1)


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
        return torch.searchsorted(sums, below_total[:, None], right=True)[:, 0]

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


def rollout(
    stepper: Stepper, limits: Tensor, bos: int, eos: int, choose: Choose, rules: Sequence[Rule] = ()
) -> Iterator[Chosen]:
    """Yield the tokens of all outputs as they are chosen; `limits` (S,) bounds each, end mark included."""
    alive, most = list(range(limits.numel())), limits.tolist()
    prefixes = [[bos] for _ in alive]
    while alive:
        numbers, log_total = predict(stepper, prefixes, alive, rules, limits.device)
        tokens = choose(numbers, alive) if choose is most_probable else choose(numbers - log_total[:, None], alive)
        at_limit = torch.tensor(
            [len(prefix) >= most[i] for prefix, i in zip(prefixes, alive, strict=True)], device=tokens.device
        )
        is_cut = at_limit & (tokens != eos)
        tokens = tokens.masked_fill(at_limit, eos)
        log_probs = numbers.gather(1, tokens[:, None])[:, 0] - log_total
        yield from map(Chosen, alive, tokens.tolist(), log_probs.tolist(), is_cut.tolist())
        rows = (tokens != eos).nonzero()[:, 0]
        prefixes = [[*prefixes[row], int(tokens[row])] for row in rows.tolist()]
        if 0 < len(prefixes) < len(alive):
            stepper.select(rows, rows)
        alive = [alive[row] for row in rows.tolist()]


def sample_search(
    stepper: Stepper,
    limits: Tensor,
    bos: int,
    eos: int,
    choose: Choose,
    alpha: float = 0.0,
    rules: Sequence[Rule] = (),
) -> list[Hypothesis]:
    """Return one output of each sentence. Its log-probability is the model's, whatever it was drawn by."""
    tokens: list[list[int]] = [[] for _ in range(limits.numel())]
    totals, is_cut = [0.0] * len(tokens), [False] * len(tokens)
    for chosen in rollout(stepper, limits, bos, eos, choose, rules):
        tokens[chosen.sentence].append(chosen.token)
        totals[chosen.sentence] += chosen.log_prob
        is_cut[chosen.sentence] = chosen.is_cut
    found = zip(tokens, totals, is_cut, strict=True)
    return [finished_hypothesis(tuple(output), total, alpha, cut) for output, total, cut in found]
