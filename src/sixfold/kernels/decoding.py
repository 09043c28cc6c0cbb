"""The compiled kernels (`decoding.c`): their structures and functions, as Python sees them.

Where they cannot be compiled (`kernels/build.py`), translating goes on without them, only slower.
"""

from __future__ import annotations

import ctypes
from ctypes import CDLL, Structure, c_float, c_int32, c_long, c_void_p
from pathlib import Path

from sixfold.kernels.build import Found, compiled, described
from sixfold.kernels.trial import WrongResultError

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-ffp-contract=off",)  # or else a row's bits could depend on how many rows there are
TRIAL = "sixfold.decode.kernel_engine:try_out"  # computes the same with torch


class MatrixStructure(Structure):
    """`Matrix` in decoding.c."""

    _fields_ = (
        ("weight", c_void_p),
        ("scale", c_void_p),
        ("bias", c_void_p),
        ("inputs", c_long),
        ("outputs", c_long),
    )


class NormStructure(Structure):
    """`Norm` in decoding.c."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("epsilon", c_float))


class AttentionStructure(Structure):
    """`Attention` in decoding.c."""

    _fields_ = (
        ("query", MatrixStructure),
        ("memory", MatrixStructure),
        ("output", MatrixStructure),
        ("norm", NormStructure),
    )


class LayerStructure(Structure):
    """`Layer` in decoding.c."""

    _fields_ = (
        ("past", AttentionStructure),
        ("source", AttentionStructure),
        ("inner", MatrixStructure),
        ("outer", MatrixStructure),
        ("norm", NormStructure),
    )


class ModelStructure(Structure):
    """`Model` in decoding.c."""

    _fields_ = (
        ("encoder", c_void_p),
        ("decoder", c_void_p),
        ("encoder_norm", NormStructure),
        ("decoder_norm", NormStructure),
        ("projection", MatrixStructure),
        ("embedding", c_void_p),
        ("embedding_scale", c_float),
        ("is_pre_norm", c_int32),
        ("is_int8", c_int32),
        ("encoder_layers", c_long),
        ("decoder_layers", c_long),
        ("d_model", c_long),
        ("padded_d_model", c_long),
        ("d_ff", c_long),
        ("heads", c_long),
        ("head_width", c_long),
        ("all_heads", c_long),
        ("vocabulary", c_long),
        ("attention_width", c_long),
    )


class SourceStructure(Structure):
    """`Source` in decoding.c."""

    _fields_ = (
        ("tokens", c_void_p),
        ("begins", c_void_p),
        ("lengths", c_void_p),
        ("positions", c_void_p),
        ("sentences", c_long),
        ("rows", c_long),
        ("longest", c_long),
        ("x", c_void_p),
        ("memory", c_void_p),
        ("room", c_void_p),
    )


class StepStructure(Structure):
    """`Step` in decoding.c."""

    _fields_ = (
        ("tokens", c_void_p),
        ("position", c_void_p),
        ("rows", c_long),
        ("width", c_long),
        ("step", c_long),
        ("history", c_void_p),
        ("capacity", c_long),
        ("blocks", c_void_p),
        ("block_rows", c_void_p),
        ("memory", c_void_p),
        ("memory_rows", c_long),
        ("longest", c_long),
        ("begins", c_void_p),
        ("lengths", c_void_p),
        ("x", c_void_p),
        ("room", c_void_p),
    )


class PredictionStructure(Structure):
    """`Prediction` in decoding.c."""

    _fields_ = (
        ("x", c_void_p),
        ("rows", c_long),
        ("width", c_long),
        ("marks", c_void_p),
        ("num_marks", c_long),
        ("end_mark", c_long),
        ("forbidden", c_void_p),
        ("next_forbidden", c_void_p),
        ("end_forbidden", c_void_p),
        ("before", c_void_p),
        ("log_totals", c_void_p),
        ("ends", c_void_p),
        ("favourites", c_void_p),
        ("count", c_long),
        ("scores", c_void_p),
        ("parents", c_void_p),
        ("tokens", c_void_p),
        ("room", c_void_p),
    )


STRUCTURES = (ModelStructure, LayerStructure, SourceStructure, StepStructure, PredictionStructure)


class Kernels:
    """The loaded library."""

    def __init__(self, library: CDLL) -> None:
        self.panel, self.lanes = library.panel(), library.lanes()
        self.most_extensions = library.most_extensions()
        if library.size_of_structures() != sum(map(ctypes.sizeof, STRUCTURES)):
            raise WrongResultError("the structures of decoding.c and decoding.py differ")
        self.room_for = library.room_for
        self.room_for.restype, self.room_for.argtypes = c_long, (c_void_p, c_long, c_long)
        self.encode, self.decode, self.find_best = library.encode, library.decode, library.find_best
        self.write_logits = library.write_logits
        for function in (self.encode, self.decode, self.find_best):
            function.restype, function.argtypes = None, (c_void_p, c_void_p)
        self.write_logits.restype, self.write_logits.argtypes = None, (c_void_p, c_void_p, c_void_p)


def find_kernels() -> Found[Kernels]:
    """Return the kernels for this machine, compiling them the first time."""
    return described(compiled(SOURCE, TRIAL, FLAGS), Kernels)
