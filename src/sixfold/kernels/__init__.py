"""C where torch is slow: the sources, how they are compiled and cached, and the shim for MKL.

Importing this package compiles and loads nothing. A kernel is compiled when it is first needed; `prepare` is what
must happen before torch is loaded, and is called by the command line, by `sixfold.load` and by `sixfold.train`.
"""

from __future__ import annotations

from sixfold.kernels.mkl import preload_shim

__all__ = ["prepare", "retry"]


def prepare() -> None:
    """Do what has to be done before torch is loaded; later it has no effect, and `sixfold doctor` says so."""
    preload_shim()


def retry() -> None:
    """Try again what could not be compiled before; like `prepare`, call it before torch is loaded."""
    from sixfold.kernels.build import forget_failures

    forget_failures()
    preload_shim()
