"""Work that does not fit into memory is done in halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sixfold.errors import WorkError
from sixfold.machine import is_out_of_memory

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_halves(work: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item]) -> list[Result]:
    """Return the results of the items in order; when memory runs out, halve the batch and go on."""
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
    # Outside the handler, so that the error no longer holds the memory of what failed.
    middle = len(items) // 2
    return in_halves(work, items[:middle]) + in_halves(work, items[middle:])
