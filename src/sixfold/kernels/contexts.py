"""The compiled kernels of decoder-only models (`contexts.c`): their structures and functions."""

from __future__ import annotations

import ctypes
from ctypes import CDLL, Structure, c_float, c_int32, c_long, c_void_p
from pathlib import Path

from sixfold.kernels.build import Found, compiled, described
from sixfold.kernels.decoding import FLAGS, MatrixStructure, NormStructure
from sixfold.kernels.structures import addresses, counts
from sixfold.kernels.trial import WrongResultError

SOURCE = Path(__file__).with_suffix(".c")
TRIAL = "sixfold.decode.kernel_contexts:try_out"  # compares it with torch


class LayerStructure(Structure):
    """`Layer` in contexts.c."""

    _fields_ = (
        *((name, MatrixStructure) for name in ("inputs", "output", "inner", "gate", "outer")),
        *((name, NormStructure) for name in ("attention_norm", "feed_forward_norm")),
    )


class ModelStructure(Structure):
    """`Model` in contexts.c."""

    _fields_ = (
        ("layers", c_void_p),
        ("last_norm", NormStructure),
        ("projection", MatrixStructure),
        *addresses("embedding", "positions", "turns"),
        ("embedding_scale", c_float),
        *((name, c_int32) for name in ("is_rms", "is_int8", "activation")),
        *counts("num_layers", "d_model", "padded_d_model"),
        *counts("heads", "key_value_heads", "head_width", "half", "max_positions"),
    )


class SpanStructure(Structure):
    """`Span` in contexts.c."""

    _fields_ = (
        ("pages", c_void_p),
        ("tokens", c_void_p),
        *counts("begin", "rows", "first_row"),
    )


class ReadingStructure(Structure):
    """`Reading` in contexts.c."""

    _fields_ = (
        ("spans", c_void_p),
        *counts("num_spans", "rows", "longest", "threads"),
        *addresses("x", "room"),
    )


class PredictionStructure(Structure):
    """`Prediction` in contexts.c."""

    _fields_ = (
        *addresses("x", "logits"),
        *counts("rows", "threads"),
        ("room", c_void_p),
    )


STRUCTURES = (ModelStructure, LayerStructure, SpanStructure, ReadingStructure, PredictionStructure)


class ContextKernels:
    """The functions of the loaded library."""

    def __init__(self, library: CDLL) -> None:
        self.panel, self.lanes, self.page = library.panel(), library.lanes(), library.page()
        if library.size_of_structures() != sum(map(ctypes.sizeof, STRUCTURES)):
            raise WrongResultError("the structures of contexts.c and contexts.py differ")
        self.room_for = library.room_for
        self.room_for.restype, self.room_for.argtypes = c_long, (c_void_p, c_long, c_long, c_long)
        self.read_tokens, self.log_probabilities = library.read_tokens, library.log_probabilities
        for function in (self.read_tokens, self.log_probabilities):
            function.restype, function.argtypes = None, (c_void_p, c_void_p)


def find_context_kernels() -> Found[ContextKernels]:
    """Return the kernels for this machine, compiling them the first time."""
    return described(compiled(SOURCE, TRIAL, (*FLAGS, "-pthread")), ContextKernels)
