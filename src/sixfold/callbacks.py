"""How long work tells how far it is: it calls a function with the amount done so far."""

from __future__ import annotations

from collections.abc import Callable

Tick = Callable[[int], None]


def counted_from(before: int, tick: Tick) -> Tick:
    """Return a function for a later part of the work, which counts from its own beginning."""
    return lambda done: tick(before + done)


def silent(_: int) -> None:
    """Show no progress."""
