"""Run kernels in several threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import Structure, c_long
from functools import cache
from itertools import pairwise


def run(kernel: Callable[..., int], structure: Structure, count: int, threads: int) -> None:
    """Run a kernel on `count` pieces, divided evenly among threads; ctypes releases Python's global lock.

    The kernel takes the structure and a range of pieces, and returns whether there was enough memory.
    """
    pointer = ctypes.byref(structure)
    bounds = [count * thread // threads for thread in range(threads + 1)]
    ranges = [(c_long(begin), c_long(end)) for begin, end in pairwise(bounds) if begin < end]
    others = [thread_pool(threads).submit(kernel, pointer, *each) for each in ranges[1:]]
    done = [kernel(pointer, *ranges[0]), *(other.result() for other in others)]
    if not all(done):
        raise MemoryError("There is not enough memory for a kernel.")


@cache
def thread_pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool of threads in addition to the calling one."""
    return ThreadPoolExecutor(threads - 1, "kernel")
