"""The time of a run: how far it is, when it validates, and how fast it goes."""

from __future__ import annotations

import math
import time

from sixfold.training.ranks import Ranks
from sixfold.training.recipe import TrainConfig
from sixfold.training.state import RunState

CHECKPOINTS_A_BUDGET = 10  # with a time budget, this many validations are spread over it


class Clock:
    """Counts the seconds of a run through all its interruptions; all ranks see the first one's time."""

    def __init__(self, config: TrainConfig, ranks: Ranks, began: float) -> None:
        self.config, self.ranks = config, ranks
        self.began = began  # on the monotonic clock; moved back by what a resumed run took before
        self.validation_seconds = 0.0  # what the last validation cost

    def seconds_here(self) -> float:
        """Return the time this run has taken, without asking the other ranks."""
        return time.monotonic() - self.began

    def seconds(self) -> float:
        """Return the time this run has taken, the same on all ranks."""
        return self.ranks.agree(self.seconds_here())

    def budget(self) -> float:
        """Return the seconds to train in, without what the last validation will need; infinite if unlimited."""
        minutes = self.config.minutes
        return max(1.0, minutes * 60 - 1.5 * self.validation_seconds) if minutes else math.inf

    def progress(self, step: int, seconds: float) -> float:
        """Return which part of the run is done, by steps or by time, whichever is further."""
        return max(step / self.config.steps, seconds / self.budget())

    def seconds_left(self, step: int, steps_a_second: float) -> float:
        """Return about how long the run will still take."""
        by_steps = (self.config.steps - step) / max(steps_a_second, 1e-9)
        return max(0.0, min(by_steps, self.budget() - self.seconds_here()))

    def is_validation_due(self, state: RunState) -> bool:
        """Return whether to validate and save now: by steps, or with a time budget by the clock."""
        if not self.config.minutes:
            return state.step % self.config.checkpoint_every == 0 or state.step == self.config.steps
        now = self.seconds()
        is_due = now >= state.next_validation > 0
        if is_due or not state.next_validation:
            interval = max(self.config.minutes * 60 / CHECKPOINTS_A_BUDGET, 10 * self.validation_seconds)
            state.next_validation = now + interval
        return is_due

    def owes_validation(self, state: RunState) -> bool:
        """Return whether the validation at the step where a run goes on was given up when it was stopped."""
        is_due = not self.config.minutes and state.step % self.config.checkpoint_every == 0
        return is_due and state.step > 0 and state.step not in state.validated


class Speedometer:
    """How fast training goes, validations not counted."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin to measure anew."""
        self.steps, self.targets, self.began = 0, 0, time.monotonic()

    def add(self, targets: int) -> None:
        """Count one step."""
        self.steps, self.targets = self.steps + 1, self.targets + targets

    def targets_a_second(self) -> float:
        """Return the targets trained on in a second."""
        return self.targets / max(time.monotonic() - self.began, 1e-9)

    def steps_a_second(self) -> float:
        """Return the steps done in a second."""
        return self.steps / max(time.monotonic() - self.began, 1e-9)
