"""C where torch is slow: the sources, how they are compiled and cached, and the shim for MKL.

Importing this room compiles and loads nothing. A kernel is compiled when it is first needed; `prepare` is for what
must happen before torch is loaded, and is called by the command line, by `sixfold.load` and by `sixfold.train`.
"""

from __future__ import annotations

from sixfold.kernels.mkl import preload_shim

__all__ = ["prepare"]


def prepare() -> None:
    """Do what has to be done before torch is loaded; later it has no effect, and `sixfold doctor` says so."""
    preload_shim()
