"""Progress callbacks: long work calls one now and then with the amount that is done."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int], None]


def offset_by(before: int, on_progress: OnProgress) -> OnProgress:
    """Return a callback for a later part of the work, which counts from its own beginning."""
    return lambda done: on_progress(before + done)


def no_progress(_: int) -> None:
    """Show nothing."""
