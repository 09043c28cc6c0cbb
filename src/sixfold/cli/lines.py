"""Answer the lines of a file or of standard input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from sixfold.callbacks import OnProgress, offset_by
from sixfold.cli.output import is_typed, write_lines
from sixfold.cli.progress_bar import progress

Answer = TypeVar("Answer")

LINES_AT_ONCE = 1000


def answer_lines(
    file: str,
    doing: str,
    answer: Callable[[Sequence[str], OnProgress], Sequence[Answer]],
    written: Callable[[int, str, Answer], Iterator[str]],
) -> None:
    """Answer the lines of a file, many at a time, or one by one if a person types them."""
    from sixfold.data.readers import read_lines

    lines, done = read_lines(file), 0
    at_once = 1 if is_typed(file) else LINES_AT_ONCE
    with progress(doing) as on_progress:
        while chunk := list(islice(lines, at_once)):
            found = answer(chunk, offset_by(done, on_progress))
            rows = zip(chunk, found, strict=True)
            write_lines(
                row for number, (line, each) in enumerate(rows, done + 1) for row in written(number, line, each)
            )
            done += len(chunk)
