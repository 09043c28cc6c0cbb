"""Helpers for groups of similar fields of C structures."""

from __future__ import annotations

from ctypes import c_long, c_void_p


def addresses(*names: str) -> list[tuple[str, type[c_void_p]]]:
    """Return fields that are addresses."""
    return [(name, c_void_p) for name in names]


def counts(*names: str) -> list[tuple[str, type[c_long]]]:
    """Return fields that are counts or strides."""
    return [(name, c_long) for name in names]
