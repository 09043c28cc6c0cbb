"""Halve a batch that does not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sixfold.errors import WorkError
from sixfold.machine import is_out_of_memory

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_halves(work: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item]) -> list[Result]:
    """Return the results of the items in order, halving the batch when memory runs out."""
    try:
        return work(items)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        if len(items) == 1:
            raise WorkError(
                "There is not enough memory for a single text.",
                "Use a narrower beam, a shorter context, or a smaller model.",
            ) from error
    # Outside the handler, so that the error no longer references the memory of the failed attempt.
    middle = len(items) // 2
    return in_halves(work, items[:middle]) + in_halves(work, items[middle:])
