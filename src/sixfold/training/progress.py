"""The progress display of training: a panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sixfold.training.task import Sample

if TYPE_CHECKING:
    from rich.panel import Panel as Box

LINE_EVERY_SECONDS = 20.0


@dataclass(frozen=True)
class StepReport:
    """The report of a training step."""

    step: int
    epoch: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    progress: float  # fraction of the run that is done
    seconds_left: float


@dataclass(frozen=True)
class ValidationReport:
    """The report of a validation."""

    step: int
    loss: float
    score_name: str
    score: float
    is_best: bool
    weights: str  # "base", "single", "average of 5", "moving average"
    sample: Sample
    own_score: float | None = None  # on the base's own validation examples, when fine-tuning
    decimals: int = 1  # shown of a score
    details: str = ""  # what else was measured, in a few words

    def shown(self, score: float) -> str:
        """Return a score with its decimals."""
        return f"{score:.{self.decimals}f}"


class Progress(Protocol):
    """Where a run reports what it does."""

    def say(self, message: str) -> None:
        """Show a permanent line."""

    def step(self, report: StepReport) -> None:
        """Show the report of a step."""

    def validation(self, report: ValidationReport) -> None:
        """Show the report of a validation."""

    def preparation(self, what: str, done: int) -> None:
        """Show the progress of a preparation step."""

    def close(self) -> None:
        """Stop showing."""


@contextmanager
def progress_for(choice: Progress | bool) -> Iterator[Progress]:
    """Yield a progress display, closed at the end: the given object, or for True one that suits standard error."""
    shown = choice if not isinstance(choice, bool) else default_progress() if choice else Silence()
    try:
        yield shown
    finally:
        shown.close()


def default_progress() -> Progress:
    """Return a panel in a terminal, and plain lines in a log, a pipe or a notebook."""
    return Panel() if sys.stderr.isatty() else PlainLines()


class Silence:
    """Shows nothing: for ranks other than the first, and for progress=False."""

    def say(self, message: str) -> None:
        """Show nothing."""

    def step(self, report: StepReport) -> None:
        """Show nothing."""

    def validation(self, report: ValidationReport) -> None:
        """Show nothing."""

    def preparation(self, what: str, done: int) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""


class PlainLines:
    """Prints a line at regular intervals, for logs and pipes."""

    def __init__(self) -> None:
        self.next_line = 0.0

    def say(self, message: str) -> None:
        """Print a line."""
        print(message, file=sys.stderr, flush=True)

    def is_time(self) -> bool:
        """Return whether it is time for the next line."""
        if time.monotonic() < self.next_line:
            return False
        self.next_line = time.monotonic() + LINE_EVERY_SECONDS
        return True

    def step(self, report: StepReport) -> None:
        """Print a line, if it is time."""
        if self.is_time():
            self.say(step_line(report))

    def validation(self, report: ValidationReport) -> None:
        """Print the scores and one example."""
        self.say(validation_line(report))
        self.say(sample_lines(report.sample, indent="  "))

    def preparation(self, what: str, done: int) -> None:
        """Print a line, if it is time."""
        if self.is_time():
            self.say(f"{what}: {done:,}")

    def close(self) -> None:
        """Do nothing."""


class Panel:
    """A panel at the bottom of a terminal, with permanent lines scrolling above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.console = Console(stderr=True)
        self.live = Live(console=self.console, refresh_per_second=4, transient=True)
        self.live.start()
        self.last: ValidationReport | None = None

    def say(self, message: str) -> None:
        """Print a line above the panel."""
        self.console.print(message, markup=False, highlight=False)

    def step(self, report: StepReport) -> None:
        """Redraw the panel."""
        self.live.update(self.render(report))

    def render(self, report: StepReport) -> Box:
        """Return the panel: a bar, the numbers, and the latest sample."""
        from rich.panel import Panel as Box
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        rows = Table.grid(expand=True)
        rows.add_row(ProgressBar(total=1.0, completed=report.progress))
        rows.add_row(Text(step_line(report)))
        if self.last is not None:
            last = self.last
            rows.add_row(
                Text(f"last {last.score_name} {last.shown(last.score)}, loss {last.loss:.3f}", style="bold")
            )
            rows.add_row(Text(sample_lines(last.sample), style="dim"))
        return Box(rows, title="training", title_align="left")

    def validation(self, report: ValidationReport) -> None:
        """Print the scores; the sample goes into the panel."""
        self.last = report
        self.say(validation_line(report))

    def preparation(self, what: str, done: int) -> None:
        """Show a count in the panel."""
        from rich.text import Text

        self.live.update(Text(f"{what}: {done:,}"))

    def close(self) -> None:
        """Remove the panel."""
        self.live.stop()


def step_line(report: StepReport) -> str:
    """Describe a step in one line."""
    return (
        f"step {report.step:,}  epoch {report.epoch + 1}  loss {report.loss:.3f}  "
        f"{report.tokens_per_second:,.0f} tokens/s  learning rate {report.learning_rate:.2e}  "
        f"{report.progress:.0%} done, {duration(report.seconds_left)} left"
    )


def validation_line(report: ValidationReport) -> str:
    """Describe a validation in one line."""
    best = "  ← best so far, saved" if report.is_best else ""
    score = f"{report.score_name} {report.shown(report.score)}"
    details = f", {report.details}" if report.details else ""
    own = "" if report.own_score is None else f"; on the base's own text {report.shown(report.own_score)}"
    return f"step {report.step:,}: {score}, loss {report.loss:.3f}{details} ({report.weights}){own}{best}"


def sample_lines(sample: Sample, indent: str = "") -> str:
    """Format a sample: the input, the model's answer and the expected one."""
    return f"{indent}  {sample.given}\n{indent}→ {sample.answer}\n{indent}= {sample.expected}"


def duration(seconds: float) -> str:
    """Return a duration in readable units."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
