"""Kernels in several threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import Structure, c_long
from functools import cache
from itertools import pairwise


def run(kernel: Callable[..., int], structure: Structure, count: int, threads: int) -> None:
    """Run a kernel on so many pieces, divided evenly among threads; ctypes lets them run at the same time.

    The kernel takes the structure and the range that it works on, and returns whether there was memory for it.
    """
    pointer = ctypes.byref(structure)
    bounds = [count * thread // threads for thread in range(threads + 1)]
    ranges = [(c_long(begin), c_long(end)) for begin, end in pairwise(bounds) if begin < end]
    others = [thread_pool(threads).submit(kernel, pointer, *each) for each in ranges[1:]]
    done = [kernel(pointer, *ranges[0]), *(other.result() for other in others)]
    if not all(done):
        raise MemoryError("There is no memory left for a kernel.")


@cache
def thread_pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads beside the one that calls."""
    return ThreadPoolExecutor(threads - 1, "kernel")
