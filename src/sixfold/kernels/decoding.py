"""The compiled kernels of translation (`decoding.c`): their structures and functions.

If they cannot be compiled (`kernels/build.py`), torch is used instead, which is slower.
"""

from __future__ import annotations

import ctypes
from ctypes import CDLL, Structure, c_float, c_int32, c_long, c_void_p
from pathlib import Path

from sixfold.kernels.build import Found, compiled, described
from sixfold.kernels.structures import addresses, counts
from sixfold.kernels.trial import WrongResultError

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-ffp-contract=off",)  # otherwise a row's bits could depend on the number of rows
TRIAL = "sixfold.decode.kernel_engine:try_out"  # compares it with torch


class MatrixStructure(Structure):
    """`Matrix` in decoding.c."""

    _fields_ = (*addresses("weight", "scale", "bias"), *counts("inputs", "outputs"))


class NormStructure(Structure):
    """`Norm` in decoding.c."""

    _fields_ = (*addresses("weight", "bias"), ("epsilon", c_float))


class AttentionStructure(Structure):
    """`Attention` in decoding.c."""

    _fields_ = (*((name, MatrixStructure) for name in ("query", "memory", "output")), ("norm", NormStructure))


class LayerStructure(Structure):
    """`Layer` in decoding.c."""

    _fields_ = (
        *((name, AttentionStructure) for name in ("past", "source")),
        *((name, MatrixStructure) for name in ("inner", "outer")),
        ("norm", NormStructure),
    )


class ModelStructure(Structure):
    """`Model` in decoding.c."""

    _fields_ = (
        *addresses("encoder", "decoder"),
        *((name, NormStructure) for name in ("encoder_norm", "decoder_norm")),
        ("projection", MatrixStructure),
        *addresses("embedding"),
        ("embedding_scale", c_float),
        *((name, c_int32) for name in ("is_pre_norm", "is_int8")),
        *counts("encoder_layers", "decoder_layers", "d_model", "padded_d_model", "d_ff"),
        *counts("heads", "head_width", "all_heads", "vocabulary", "attention_width"),
    )


class SourceStructure(Structure):
    """`Source` in decoding.c."""

    _fields_ = (
        *addresses("tokens", "begins", "lengths", "positions"),
        *counts("sentences", "rows", "longest"),
        *addresses("x", "memory", "room"),
    )


class StepStructure(Structure):
    """`Step` in decoding.c."""

    _fields_ = (
        *addresses("tokens", "position"),
        *counts("rows", "width", "step"),
        *addresses("history"),
        *counts("capacity"),
        *addresses("blocks", "block_rows", "memory"),
        *counts("memory_rows", "longest"),
        *addresses("begins", "lengths", "x", "room"),
    )


class PredictionStructure(Structure):
    """`Prediction` in decoding.c."""

    _fields_ = (
        *addresses("x"),
        *counts("rows", "width"),
        *addresses("never_chosen"),
        *counts("num_never_chosen", "eos"),
        *addresses("forbidden", "next_forbidden", "end_forbidden"),
        *addresses("before", "log_totals", "ends", "most_probable"),
        *counts("count"),
        *addresses("scores", "parents", "tokens", "room"),
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
