"""Ctrl-C and SIGTERM: the first asks the run to save and stop, a second Ctrl-C ends it at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STANDARD_ERROR = 2


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Defer the signals: in the middle of an import Python may turn an interrupt into another error.

    Handlers are replaced, because a blocked signal would reach another thread, and through it Python.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


class Interrupted(Exception):
    """Long work was interrupted because a stop was requested."""


class StopRequest:
    """Catches the signals during a run."""

    def __init__(self) -> None:
        self.is_requested = False
        self.previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():  # Python handles signals in the main thread only
            self.previous = {number: signal.signal(number, self.catch) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def check(self) -> None:
        """Interrupt long work if a stop was requested."""
        if self.is_requested:
            raise Interrupted

    def catch(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Record the request; stop at once at the second Ctrl-C."""
        if self.is_requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_requested = True
        # Not print: the signal may have interrupted one, and streams are not reentrant.
        with contextlib.suppress(OSError):
            os.write(STANDARD_ERROR, b"\nfinishing this step, then saving (Ctrl-C again to stop at once)\n")
