"""Reports of a run: records in the metrics log, and the progress display."""

from __future__ import annotations

import math
from dataclasses import asdict
from zlib import crc32

from sixfold.training.clock import Clock, Speedometer
from sixfold.training.metrics_log import MetricsLog
from sixfold.training.progress import Progress, StepReport, ValidationReport
from sixfold.training.selection import Measured
from sixfold.training.state import RunState
from sixfold.training.step import StepResult
from sixfold.training.task import Batch

SMOOTHING = 0.95  # of the displayed loss


class Reporter:
    """Writes and shows the steps and validations of the first rank; other ranks report nothing."""

    def __init__(self, log: MetricsLog, progress: Progress, clock: Clock, is_first: bool) -> None:
        self.log, self.progress, self.clock, self.is_first = log, progress, clock, is_first
        self.speed = Speedometer()
        self.shown_loss = math.nan

    def step(self, state: RunState, result: StepResult, learning_rate: float, batch: Batch) -> None:
        """Report a step."""
        if not self.is_first:
            return
        seconds, step, epoch = self.clock.seconds_here(), state.step, state.position.epoch
        self.log.write(
            {"kind": "step", "step": step, "loss": result.loss, "grad_norm": result.grad_norm,
             "learning_rate": learning_rate, "targets": batch.num_targets, "epoch": epoch,
             "examples": crc32(batch.examples.tobytes()), "seconds": round(seconds, 3)}
        )  # fmt: skip
        is_first_loss = math.isnan(self.shown_loss)
        self.shown_loss = result.loss if is_first_loss else mixed(self.shown_loss, result.loss)
        self.speed.add(batch.num_targets)
        done, left = self.clock.progress(step, seconds), self.clock.seconds_left(step, self.speed.steps_a_second())
        per_second = self.speed.targets_a_second()
        self.progress.step(StepReport(step, epoch, self.shown_loss, learning_rate, per_second, done, left))

    def validation(self, state: RunState, measured: Measured, is_best: bool) -> None:
        """Report a validation."""
        scores, own = measured.scores, None if measured.own is None else measured.own.value
        report = ValidationReport(
            state.step, measured.loss, scores.name, scores.value, is_best, measured.weights, scores.sample, own,
            scores.decimals, scores.details,
        )  # fmt: skip
        self.log.write({"kind": "validation", **asdict(report)})
        self.progress.validation(report)

    def skipped(self, state: RunState, result: StepResult, lines: list[int], what: str) -> None:
        """Report a skipped step."""
        if self.is_first:
            self.progress.say(f"warning: {what}. The step is skipped.")
            self.log.write(
                {"kind": "skipped", "step": state.step, "loss": str(result.loss),
                 "grad_norm": str(result.grad_norm), "lines": lines}
            )  # fmt: skip


def mixed(shown: float, new: float) -> float:
    """Update an exponential moving average."""
    return SMOOTHING * shown + (1 - SMOOTHING) * new
