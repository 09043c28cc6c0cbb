"""How long work tells how far it is: it calls a function with the amount done so far."""

from __future__ import annotations

from collections.abc import Callable

Tick = Callable[[int], None]


def silent(_: int) -> None:
    """Show no progress."""
