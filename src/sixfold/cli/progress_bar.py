"""The progress of long work: a bar in a terminal, regular plain lines elsewhere, nothing for short work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sixfold.callbacks import OnProgress

QUIET_SECONDS = 2.0  # work shorter than this shows nothing
PLAIN_LINE_EVERY = 10.0


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "lines") -> Iterator[OnProgress]:
    """Yield a function to call with the amount done; shows on standard error only."""
    show = bar(what, total, unit) if sys.stderr.isatty() else plain_lines(what, total, unit)
    with show as on_progress:
        yield on_progress


@contextmanager
def plain_lines(what: str, total: int | None, unit: str) -> Iterator[OnProgress]:
    """Print a line every few seconds, for logs and pipes."""
    began = time.monotonic()
    last = began + QUIET_SECONDS - PLAIN_LINE_EVERY

    def on_progress(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PLAIN_LINE_EVERY:
            last = now
            of_total = f" of {total:,}" if total else ""
            print(f"{what}: {done:,}{of_total} {unit}, {now - began:.0f} s", file=sys.stderr, flush=True)

    yield on_progress


@contextmanager
def bar(what: str, total: int | None, unit: str) -> Iterator[OnProgress]:
    """Draw a bar that appears when the work takes noticeable time and disappears when it is done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    display = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = display.add_task(what, total=total)
    began = time.monotonic()
    started = False

    def on_progress(done: int) -> None:
        nonlocal started
        if not started and time.monotonic() - began > QUIET_SECONDS:
            display.start()
            started = True
        display.update(task, completed=done)

    try:
        yield on_progress
    finally:
        if started:
            display.stop()
