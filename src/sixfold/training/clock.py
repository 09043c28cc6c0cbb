"""The time of a run: its progress, when it validates, and its speed."""

from __future__ import annotations

import math
import time

from sixfold.training.ranks import Ranks
from sixfold.training.recipe import TrainConfig
from sixfold.training.state import RunState

CHECKPOINTS_A_BUDGET = 10  # with a time budget, this many validations are spread over it


class Clock:
    """Counts the seconds of a run across interruptions; all ranks use the first one's time."""

    def __init__(self, config: TrainConfig, ranks: Ranks, began: float) -> None:
        self.config, self.ranks = config, ranks
        self.began = began  # on the monotonic clock; moved back by the time before a resumed run was stopped
        self.validation_seconds = 0.0  # duration of the last validation

    def seconds_here(self) -> float:
        """Return the time this run has taken, without asking the other ranks."""
        return time.monotonic() - self.began

    def seconds(self) -> float:
        """Return the time this run has taken, the same on all ranks."""
        return self.ranks.agree(self.seconds_here())

    def budget(self) -> float:
        """Return the seconds for training, without those for the last validation; infinite if unlimited."""
        minutes = self.config.minutes
        return max(1.0, minutes * 60 - 1.5 * self.validation_seconds) if minutes else math.inf

    def progress(self, step: int, seconds: float) -> float:
        """Return the fraction of the run that is done, by steps or by time, whichever is larger."""
        return max(step / self.config.steps, seconds / self.budget())

    def seconds_left(self, step: int, steps_a_second: float) -> float:
        """Return the estimated remaining time of the run."""
        by_steps = (self.config.steps - step) / max(steps_a_second, 1e-9)
        return max(0.0, min(by_steps, self.budget() - self.seconds_here()))

    def is_validation_due(self, state: RunState) -> bool:
        """Return whether to validate and save now: by steps, or by the clock with a time budget."""
        if not self.config.minutes:
            return state.step % self.config.checkpoint_every == 0 or state.step == self.config.steps
        now = self.seconds()
        is_due = now >= state.next_validation > 0
        if is_due or not state.next_validation:
            interval = max(self.config.minutes * 60 / CHECKPOINTS_A_BUDGET, 10 * self.validation_seconds)
            state.next_validation = now + interval
        return is_due

    def owes_validation(self, state: RunState) -> bool:
        """Return whether the validation at this step was interrupted when the run was stopped."""
        is_due = not self.config.minutes and state.step % self.config.checkpoint_every == 0
        return is_due and state.step > 0 and state.step not in state.validated


class Speedometer:
    """The speed of training, without validations."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start measuring again."""
        self.steps, self.targets, self.began = 0, 0, time.monotonic()

    def add(self, targets: int) -> None:
        """Count one step."""
        self.steps, self.targets = self.steps + 1, self.targets + targets

    def targets_a_second(self) -> float:
        """Return the targets per second."""
        return self.targets / max(time.monotonic() - self.began, 1e-9)

    def steps_a_second(self) -> float:
        """Return the steps per second."""
        return self.steps / max(time.monotonic() - self.began, 1e-9)
