"""Normalisation of the last dimension: the paper's layer norm, or the root-mean-square norm of Llama and T5."""

from __future__ import annotations

from torch import nn

from sixfold.nn.config import BlockConfig

Norm = nn.LayerNorm | nn.RMSNorm


def make_norm(config: BlockConfig) -> Norm:
    """Return a norm of d_model features."""
    make = nn.LayerNorm if config.norm_kind == "layer" else nn.RMSNorm
    return make(config.d_model, eps=config.norm_epsilon)


def final_norm(config: BlockConfig) -> nn.Module:
    """Return the module after the last layer: one more norm for pre-norm, whose residual sum is not normalised."""
    return make_norm(config) if config.norm == "pre" else nn.Identity()
