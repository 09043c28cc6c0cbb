"""Normalisation of the last dimension: the paper's layer norm, or the root-mean-square norm of Llama and T5."""

from __future__ import annotations

from torch import nn

from sixfold.nn.config import BlockConfig

Norm = nn.LayerNorm | nn.RMSNorm


def make_norm(config: BlockConfig) -> Norm:
    """Return one norm of d_model numbers."""
    make = nn.LayerNorm if config.norm_kind == "layer" else nn.RMSNorm
    return make(config.d_model, eps=config.norm_epsilon)


def final_norm(config: BlockConfig) -> nn.Module:
    """Return what follows the last layer: pre-norm leaves its sum unnormalised, so it needs one more norm."""
    return make_norm(config) if config.norm == "pre" else nn.Identity()
