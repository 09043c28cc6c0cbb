"""Results on standard output, whose reader may close the pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import typer

CLOSED_PIPE = 141  # as shells report a closed pipe: 128 + SIGPIPE


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """End quietly when the reader closes the pipe, as in `sixfold translate … | head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still to be written at exit goes nowhere, instead of failing once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(CLOSED_PIPE) from None


def write_lines(lines: Iterable[str]) -> None:
    """Write lines and flush them at once."""
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
