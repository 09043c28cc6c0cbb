"""Several models, stepped through as one: the average of their probabilities.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from sixfold.decode.search import Stepper
from sixfold.models.ensemble import average


class EnsembleStepper:
    """Several steppers as a search sees one."""

    def __init__(self, steppers: Sequence[Stepper]) -> None:
        self.steppers = steppers

    def step(self, tokens: Tensor) -> Tensor:
        """Return the averaged log-probabilities (R, V) of the next token."""
        return average((stepper.step(tokens) for stepper in self.steppers), len(self.steppers))

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        """Keep these sentences and rows of every model."""
        for stepper in self.steppers:
            stepper.select(sentences, rows)
