"""Detection of misaligned lines: do the two sides still translate each other?

The lengths of a sentence and its translation are correlated. If they correlate far better with the lines some
distance away, a line is missing on one side; if with nothing, the sides are unrelated. Only lengths are compared,
so the check is cheap and works for any language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sixfold.data.checks.report import Place

Lengths = NDArray[np.int64]

WINDOW = 100  # pairs per correlation: those of unrelated lines stay within ±0.4
REACH = 32  # the largest shift considered
SHIFT_CORRELATION = 0.5  # the shifted lines must reach this...
SHIFT_GAIN = 0.25  # ...and exceed the unshifted lines by this
UNRELATED_CORRELATION = 0.15
VARIED = 0.2  # standard deviation of the logarithms below which lengths are uninformative
MIN_SHIFTED_WINDOWS = 2
MIN_UNRELATED_WINDOWS = 5

ALIGNED, UNRELATED = 0, REACH + 1


@dataclass(frozen=True, slots=True)
class MisalignedRun:
    """Consecutive windows with the same misalignment, and the location of the first pair."""

    state: int  # the shift, or UNRELATED
    place: Place
    num_windows: int = 0

    @property
    def num_pairs(self) -> int:
        """How many pairs it spans."""
        return self.num_windows * WINDOW

    @property
    def is_long(self) -> bool:
        """Whether it is too long to be chance."""
        enough = MIN_UNRELATED_WINDOWS if self.state == UNRELATED else MIN_SHIFTED_WINDOWS
        return self.state != ALIGNED and self.num_windows >= enough

    @property
    def meaning(self) -> str:
        """What happened and what to do."""
        if self.state == UNRELATED:
            return "From about here on, source and target are unrelated: align the files again."
        lines = "a line" if abs(self.state) == 1 else f"{abs(self.state)} lines"
        late, early = ("target", "source") if self.state > 0 else ("source", "target")
        return f"From about here on, the {late} is {lines} late: find what it has and the {early} lacks."


class AlignmentMonitor:
    """Compares the lengths of both sides as a corpus is read, and finds long misaligned runs."""

    def __init__(self) -> None:
        self.run: MisalignedRun | None = None

    def add(self, source: Lengths, target: Lengths, place_of: Callable[[int], Place]) -> Iterator[MisalignedRun]:
        """Take the lengths of the next pairs, and yield the long runs that ended among them."""
        source_logs, target_logs = np.log(source + 1.0), np.log(target + 1.0)
        for start in range(REACH, len(source) - REACH - WINDOW + 1, WINDOW):
            around = slice(start - REACH, start + WINDOW + REACH)
            state = window_state(source_logs[start : start + WINDOW], target_logs[around])
            if self.run is None or state != self.run.state:
                yield from self.end()
                self.run = MisalignedRun(state, place_of(start))
            self.run = replace(self.run, num_windows=self.run.num_windows + 1)

    def end(self) -> Iterator[MisalignedRun]:
        """Yield the current run, if it is long."""
        if self.run is not None and self.run.is_long:
            yield self.run


def window_state(source: NDArray[np.float64], target: NDArray[np.float64]) -> int:
    """Return the shift at which the lengths of a window correlate best, ALIGNED when in doubt."""
    targets = np.lib.stride_tricks.sliding_window_view(target, len(source))  # one row a shift
    deviations = targets.std(axis=1)
    if min(source.std(), deviations.min()) < VARIED:
        return ALIGNED
    centred = targets - targets.mean(axis=1, keepdims=True)
    correlations = centred @ (source - source.mean()) / (len(source) * deviations * source.std())
    here, best = correlations[REACH], int(correlations.argmax())
    if correlations[best] > SHIFT_CORRELATION and correlations[best] > here + SHIFT_GAIN:
        return best - REACH
    return UNRELATED if here < UNRELATED_CORRELATION else ALIGNED
