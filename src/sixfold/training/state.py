"""The state of a run; together with the weights and the optimizer it is all that resuming needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sixfold.data.batches import Position


@dataclass
class RunState:
    """The state of a run."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0  # so far, over all interruptions
    validated: list[int] = field(default_factory=list)  # the last steps whose checkpoints can be averaged
    next_validation: float = 0.0  # with a time budget: its time in seconds
    stale: int = 0  # validations since the best one
    skipped: int = 0  # steps skipped because the loss or gradient was not finite
    best: dict[str, Any] = field(default_factory=dict)  # step, score and loss of the published model
    base: dict[str, Any] = field(default_factory=dict)  # the same of the base of a fine-tuning, at step 0
    highest_score: float | None = None  # of all models that may be published
    threads: int = 1  # data-parallel threads; another number would sum in another order
    finished: str = ""  # the reason, once the run has ended

    def as_json(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> RunState:
        """Return the state from the data of `as_json`, which the checkpoint's digest has verified."""
        return cls(**{**content, "position": Position(**content["position"]), "finished": ""})
