"""Progress callbacks: long work calls one regularly with the amount done."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int], None]


def offset_by(before: int, on_progress: OnProgress) -> OnProgress:
    """Return a callback for a later part of the work, whose count starts at 0."""
    return lambda done: on_progress(before + done)


def no_progress(_: int) -> None:
    """Show nothing."""
