"""Compiled kernels for operations that are slow in torch: C sources, compilation and caching, and the MKL shim.

Importing this package compiles and loads nothing. A kernel is compiled when it is first needed; `prepare` must be
called before torch is imported, which the command line, `sixfold.load` and `sixfold.train` do.
"""

from __future__ import annotations

from sixfold.kernels.mkl import preload_shim

__all__ = ["prepare", "retry"]


def prepare() -> None:
    """Prepare the process before torch is imported; later it has no effect, which `sixfold doctor` reports."""
    preload_shim()


def retry() -> None:
    """Retry kernels that could not be compiled before; like `prepare`, call it before torch is imported."""
    from sixfold.kernels.build import forget_failures

    forget_failures()
    preload_shim()
