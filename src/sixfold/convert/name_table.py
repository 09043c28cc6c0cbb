"""Tables of names between our weights and those of a foreign file, used in both directions.

A table names modules; the weights and biases of a module correspond. A name may contain `{}` for the number of a
layer, on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from sixfold.callbacks import OnProgress, no_progress
from sixfold.errors import ModelFolderError
from sixfold.models.kinds import new_model
from sixfold.models.weights import Weights, weights_of
from sixfold.nn import BlockConfig

LAYER = re.compile(r"(?<=stack\.layers\.)\d+(?=\.)")
FUSED = "self_attention.project"  # W^Q, W^K and W^V, stacked


@dataclass(frozen=True)
class Stored:
    """A module or tensor of a foreign file, and how it differs from ours."""

    name: str
    is_transposed: bool = False
    turned_heads: Literal["", "query", "key"] = ""  # heads whose rotary pairs are adjacent; ours are D/2 apart


Table = Mapping[str, str | tuple[Stored, ...]]  # several modules are stacked in ours


class ForeignTensors(Protocol):
    """The tensors of a foreign file with a checked header."""

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shape of every tensor."""

    def read(self, name: str) -> Tensor:
        """Return a tensor in its stored precision, or in float32 if it is quantised."""


def empty_weights(config: BlockConfig) -> Weights:
    """Return the tensors of a model on the meta device, without memory for their values."""
    with torch.device("meta"):
        return weights_of(new_model(config))


def stored_parts(name: str, table: Table) -> tuple[Stored, ...]:
    """Return the foreign tensors that one of ours consists of."""
    module, _, kind = name.rpartition(".")
    layer = LAYER.search(module)
    number, suffix = layer.group() if layer else "", "bias" if kind == "bias" else "weight"  # of a table too
    parts = table[LAYER.sub("{}", module)]
    parts = (Stored(parts),) if isinstance(parts, str) else parts
    return tuple(replace(part, name=f"{part.name.replace('{}', number)}.{suffix}") for part in parts)


def part_sizes(name: str, whole: Tensor, config: BlockConfig, parts: int) -> list[int]:
    """Return the number of our rows in each part."""
    if parts == 1:
        return [whole.size(0)]
    assert FUSED in name
    d_k, d_v = config.head_widths
    shared = config.key_value_heads or config.heads
    return [config.heads * d_k, shared * d_k, shared * d_v]


def parts_of(name: str, whole: Tensor, config: BlockConfig, table: Table) -> Iterator[tuple[Stored, Tensor]]:
    """Yield each foreign tensor that ours consists of, with its rows."""
    parts = stored_parts(name, table)
    yield from zip(parts, whole.split(part_sizes(name, whole, config, len(parts))), strict=True)


def to_theirs(weights: Weights, config: BlockConfig, table: Table) -> Weights:
    """Return all weights with their foreign names."""
    return {
        part.name: as_theirs(part, rows, config)
        for name, whole in weights.items()
        for part, rows in parts_of(name, whole, config, table)
    }


def as_theirs(part: Stored, rows: Tensor, config: BlockConfig) -> Tensor:
    """Return one foreign tensor."""
    if part.turned_heads:
        halves = rows.unflatten(0, (num_heads(part, config), 2, -1))
        rows = halves.transpose(1, 2).flatten(0, 2)
    return (rows.t() if part.is_transposed else rows).contiguous()


def as_ours(part: Stored, tensor: Tensor, config: BlockConfig) -> Tensor:
    """Return our rows from a foreign tensor."""
    rows = tensor.t() if part.is_transposed else tensor
    if part.turned_heads:
        pairs = rows.unflatten(0, (num_heads(part, config), -1, 2))
        rows = pairs.transpose(1, 2).flatten(0, 2)
    return rows


def num_heads(part: Stored, config: BlockConfig) -> int:
    """Return how many heads a projection has."""
    return config.heads if part.turned_heads == "query" else config.key_value_heads or config.heads


def to_ours(
    tensors: ForeignTensors,
    config: BlockConfig,
    table: Table,
    source: str,
    ignored: Collection[re.Pattern[str]] = (),
    on_progress: OnProgress = no_progress,
) -> Weights:
    """Read a model's weights, after checking that the foreign file has exactly these.

    `source` names the file in errors, `ignored` are names of tensors that are not weights; `on_progress` gets the
    number of tensors read.
    """
    empty = empty_weights(config)
    refuse_other_tensors(tensors, empty, config, table, source, ignored)
    weights: Weights = {}
    for done, (name, whole) in enumerate(empty.items(), start=1):
        parts = [as_ours(part, read(tensors, part.name, source), config) for part in stored_parts(name, table)]
        weights[name] = (torch.cat(parts) if len(parts) > 1 else parts[0]).contiguous()
        assert weights[name].shape == whole.shape
        on_progress(done)
    return weights


def refuse_other_tensors(
    tensors: ForeignTensors,
    empty: Weights,
    config: BlockConfig,
    table: Table,
    source: str,
    ignored: Collection[re.Pattern[str]],
) -> None:
    """Refuse missing and unknown tensors, and those of another shape than the configuration implies."""
    expected = {
        part.name: tuple(as_theirs(part, rows, config).shape)
        for name, whole in empty.items()
        for part, rows in parts_of(name, whole, config, table)
    }
    found = {
        name: shape for name, shape in tensors.shapes().items() if not any(p.fullmatch(name) for p in ignored)
    }
    for name, shape in expected.items():
        if name not in found:
            raise ModelFolderError(f"{source} has no tensor {name}, which its configuration requires.")
        if found[name] != shape:
            raise ModelFolderError(
                f"{source}: by its configuration {name} should have the shape {shape}, but it has {found[name]}."
            )
    if odd := sorted(found.keys() - expected.keys()):
        raise ModelFolderError(
            f"{source} has the tensor {odd[0]}, which this kind of model does not have.",
            "It may be a variant of the architecture that Sixfold does not support.",
        )


def read(tensors: ForeignTensors, name: str, source: str) -> Tensor:
    """Return a tensor; refuse numbers that are not finite."""
    tensor = tensors.read(name)
    if not tensor.isfinite().all():
        raise ModelFolderError(f"{source}: {name} contains numbers that are not finite.")
    return tensor
