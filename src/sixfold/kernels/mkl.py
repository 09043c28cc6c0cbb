"""Enable MKL's fast kernels on AMD processors with AVX-512.

torch multiplies matrices with MKL, which calls one of its own functions to find out whether the processor is
Intel's; if not, it uses AVX2 kernels at less than half the speed. A shim that is loaded before torch replaces that
function. MKL still checks which instructions are available.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sixfold.kernels.build import Compiled

SOURCE = Path(__file__).with_suffix(".c")
CPUINFO = Path("/proc/cpuinfo")
BEGINNING = 4096  # bytes, which include the first processor's vendor and flags


def is_underrated(cpuinfo: Path = CPUINFO) -> bool:
    """Return whether the first processor is from AMD and has AVX-512, which MKL does not use there by itself."""
    try:
        with cpuinfo.open("rb") as file:
            beginning = file.read(BEGINNING)
    except OSError:
        return False
    return b"AuthenticAMD" in beginning and b" avx512f " in beginning


def preload_shim() -> None:
    """Preload the shim that enables MKL's AVX-512 kernels on AMD; too late, and not done, once torch is loaded."""
    if is_underrated() and "torch" not in sys.modules and (library := answer().library):
        ctypes.CDLL(library._name, mode=ctypes.RTLD_GLOBAL)


def answer() -> Compiled:
    """Return the shim, tested with the installed torch."""
    from sixfold.kernels.build import Compiled, compiled, identity

    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        return Compiled(None, "torch is not installed")
    mark = zlib.crc32(identity(torch.origin).encode())
    return compiled(SOURCE, "sixfold.kernels.mkl:trial", (f"-DTRIED_WITH={mark}",), is_for_any=True)


def slow_because() -> str:
    """Return why MKL's AVX-512 kernels are not used, or an empty string; imports torch and multiplies."""
    import torch

    if not is_underrated() or not torch.backends.mkl.is_available():
        return ""
    found = answer()
    if found.library is None:
        return found.reason
    return "" if was_asked(found.library) else "torch was imported before sixfold.kernels.prepare() was called"


def was_asked(library: ctypes.CDLL) -> bool:
    """Return whether MKL calls the shim's function."""
    import torch

    torch.ones(64, 64) @ torch.ones(64, 64)  # MKL calls it at its first product
    return ctypes.c_int.in_dll(library, "sixfold_times_asked").value > 0


def trial(path: str) -> None:
    """Raise if MKL does not call the shim, or multiplies wrongly with it."""
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    import torch

    from sixfold.kernels.trial import WrongResultError

    if not was_asked(library):
        raise WrongResultError("this torch does not call it")
    for rows, inner, columns in ((1, 1, 1), (3, 65, 7), (129, 512, 384), (700, 130, 1025)):
        left, right = torch.randn(rows, inner), torch.randn(inner, columns)
        torch.testing.assert_close(left @ right, (left.double() @ right.double()).float(), rtol=1e-4, atol=1e-4)
