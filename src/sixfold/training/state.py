"""Where a run stands; with the weights and the optimizer this is all that resuming needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sixfold.data.batches import Position


@dataclass
class RunState:
    """Where a run stands."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0  # spent so far, before and after every interruption
    validated: list[int] = field(default_factory=list)  # the last steps whose checkpoints can be averaged
    next_validation: float = 0.0  # with a time budget: when, in seconds
    stale: int = 0  # validations since the best one
    skipped: int = 0  # steps left out because their loss or gradient was not finite
    best: dict[str, Any] = field(default_factory=dict)  # step, score and loss of the published model
    base: dict[str, Any] = field(default_factory=dict)  # the same of the model that is fine-tuned, at step 0
    highest_score: float | None = None  # of all validations whose model may be kept
    threads: int = 1  # data-parallel ones; other sums would be other bits
    finished: str = ""  # why the run ended, once it has

    def as_json(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> RunState:
        """Return a state that `as_json` made; that it is what was written, the checkpoint's digest vouches for."""
        return cls(**{**content, "position": Position(**content["position"]), "finished": ""})
