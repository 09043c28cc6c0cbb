"""Write results to standard output, whose reader may close the pipe, and detect a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import typer

from sixfold.errors import ConfigError, WorkError

CLOSED_PIPE = 141  # as shells report a closed pipe: 128 + SIGPIPE


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """End quietly when the reader closes the pipe, as in `sixfold translate … | head`; say when a disk is full."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        raise typer.Exit(CLOSED_PIPE) from None
    except OSError as error:
        if error.filename is not None:  # of another file than standard output
            raise
        forget_output()
        raise WorkError(f"The output cannot be written: {error.strerror}.") from error


def forget_output() -> None:
    """Let what is still to be written at exit go nowhere, instead of failing once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_lines(lines: Iterable[str]) -> None:
    """Write lines and flush them at once."""
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write_piece(text: str) -> None:
    """Write a part of a line and flush it at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def is_typed(file: str) -> bool:
    """Return whether a person types the lines in a terminal."""
    return file == "-" and sys.stdin.isatty()


def refuse_unseen(wish: int, as_json: bool, name: str = "decode.alternatives") -> None:
    """Refuse to compute results that would not be shown."""
    if wish and not as_json:
        raise ConfigError(f"{name} are only shown in JSON.", "Add --json")


def print_table(title: str, metrics: Sequence[tuple[str, str, str]]) -> None:
    """Print metrics as a table: name, value and signature of each."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column("signature", style="dim", overflow="fold")
    for row in metrics:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
