"""The compiled kernels of encoders (`encoding.c`): their structures and functions."""

from __future__ import annotations

import ctypes
from ctypes import CDLL, Structure, c_float, c_int32, c_long, c_void_p
from pathlib import Path

from sixfold.kernels.build import Found, compiled, described
from sixfold.kernels.contexts import LayerStructure
from sixfold.kernels.decoding import FLAGS, NormStructure
from sixfold.kernels.trial import WrongResultError

SOURCE = Path(__file__).with_suffix(".c")
TRIAL = "sixfold.decode.kernel_encoder:try_out"  # computes the same with torch


class ModelStructure(Structure):
    """`Model` in encoding.c."""

    _fields_ = (
        ("layers", c_void_p),
        *((name, NormStructure) for name in ("first_norm", "last_norm")),
        *((name, c_void_p) for name in ("embedding", "positions", "types")),
        ("embedding_scale", c_float),
        *((name, c_int32) for name in ("is_pre_norm", "is_rms", "is_int8", "activation")),
        *((name, c_long) for name in ("num_layers", "d_model", "padded_d_model", "heads", "head_width")),
    )


class TextsStructure(Structure):
    """`Texts` in encoding.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("tokens", "types", "begins", "batches")),
        *((name, c_long) for name in ("num_batches", "most_rows", "longest", "threads")),
        *((name, c_void_p) for name in ("hidden", "vectors")),
        ("is_mean", c_int32),
        ("room", c_void_p),
    )


class EncoderKernels:
    """The functions of the loaded library."""

    def __init__(self, library: CDLL) -> None:
        self.panel, self.lanes, self.group = library.panel(), library.lanes(), library.group()
        structures = (ModelStructure, LayerStructure, TextsStructure)
        if library.size_of_structures() != sum(map(ctypes.sizeof, structures)):
            raise WrongResultError("the structures of encoding.c and encoding.py differ")
        self.room_for, self.encode = library.room_for, library.encode
        self.room_for.restype, self.room_for.argtypes = c_long, (c_void_p, c_long, c_long)
        self.encode.restype, self.encode.argtypes = None, (c_void_p, c_void_p)


def find_encoder_kernels() -> Found[EncoderKernels]:
    """Return the kernels for this machine, compiling them the first time."""
    return described(compiled(SOURCE, TRIAL, (*FLAGS, "-pthread")), EncoderKernels)
