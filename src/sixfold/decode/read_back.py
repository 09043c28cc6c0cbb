"""Reading back: of the hypotheses that a search found, prefer those from which the source can be told.

What is short and general is probable after almost any source. A model that was trained both ways also knows how
probable the source is after a hypothesis, and what was left out or changed shows there.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from sixfold.decode.search import Hypothesis, Stepper, length_penalty, predictions

Ids = list[int]
Score = Callable[[Sequence[Ids], Sequence[Ids]], list[float]]
"""Return the log-probability of each output after its input, end marks included."""


def read_back(
    found: Sequence[Sequence[Hypothesis]], sources: Sequence[Ids], score: Score, weight: float, alpha: float
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each source, best first by their score and weight times the source's score."""
    rows = [(source, hypothesis) for source, some in zip(sources, found, strict=True) for hypothesis in some]
    totals = iter(score([[*hypothesis.tokens[:-1]] for _, hypothesis in rows], [source for source, _ in rows]))
    ordered = []
    for source, some in zip(sources, found, strict=True):
        worth = weight / length_penalty(len(source) + 1, alpha)
        read = [replace(hypothesis, read_back=worth * next(totals)) for hypothesis in some]
        ordered.append(sorted(read, key=lambda hypothesis: -(hypothesis.score + hypothesis.read_back)))
    return ordered


def forced(stepper: Stepper, wanted: Sequence[Ids], begin: int, device: torch.device) -> list[float]:
    """Return the log-probability of the tokens wanted of each row (R,), of which the longest come first."""
    totals, newest = [0.0] * len(wanted), [begin] * len(wanted)
    for place in range(len(wanted[0])):
        tokens = [row[place] for row in wanted if len(row) > place]
        if len(tokens) < len(newest):
            rows = torch.arange(len(tokens), device=device)
            stepper.select(rows, rows)
        for row, log_prob in enumerate(next_ones(stepper, newest[: len(tokens)], tokens, device)):
            totals[row] += log_prob
        newest = tokens
    return totals


def next_ones(stepper: Stepper, newest: list[int], wanted: list[int], device: torch.device) -> list[float]:
    """Step with the newest tokens (R,); return the log-probabilities of those wanted next (R,)."""
    found: list[float] = []
    for numbers, log_totals in predictions(stepper, [[token] for token in newest], [], (), device):
        here = torch.tensor(wanted[len(found) : len(found) + log_totals.numel()], device=device)
        found += (numbers.gather(1, here[:, None])[:, 0] - log_totals).tolist()
    return found
