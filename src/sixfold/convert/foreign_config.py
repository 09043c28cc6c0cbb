"""Configurations of published models: tables of names, and fields that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sixfold.convert.name_table import Table
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.folder import first_problem
from sixfold.nn import BlockConfig
from sixfold.nn.config import Activation

Fields = Mapping[str, str]  # from our name to theirs
Config = TypeVar("Config", bound=BlockConfig)

ACTIVATIONS: dict[str, Activation] = {  # transformers' names; of several for one, the first is written
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class HuggingFaceFormat(Generic[Config]):
    """A class of Hugging Face's transformers: tensor names and configuration, in both directions."""

    architecture: str
    model_type: str
    table: Table
    read_config: Callable[[Mapping[str, Any]], Config]
    write_config: Callable[[Config], dict[str, Any]]
    ignored: tuple[re.Pattern[str], ...]  # tensors that are not weights
    prefix: str = ""  # of names; some files omit it


# Exceptions that a wrong value in a configuration may raise.
WRONG_VALUES = (TypeError, ValueError, KeyError, AttributeError, OverflowError, ZeroDivisionError, ConfigError)


@contextmanager
def values_of(source: str) -> Iterator[None]:
    """Turn exceptions from wrong values in a foreign configuration into an error that names the source."""
    try:
        yield
    except WRONG_VALUES as error:
        raise ModelFolderError(f"{source} cannot be used: {first_problem(error)}") from error


MOST_TELLING = ("positions", "norm", "norm_kind")  # named first in a refusal


def renamed(content: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the fields with our names."""
    for theirs in fields.values():
        if theirs not in content:
            raise ModelFolderError(f"config.json has no {theirs}.")
    return {ours: content[theirs] for ours, theirs in fields.items()}


def activation_of(content: Mapping[str, Any], field: str) -> Activation:
    """Return our name for an activation."""
    name = content[field]
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ModelFolderError(
            f"config.json has {field}={str(name)[:40]!r}, which Sixfold does not support.",
            f"Known: {', '.join(ACTIVATIONS)}.",
        )
    return ACTIVATIONS[name]


def their_activation(ours: Activation) -> str:
    """Return what transformers calls an activation of ours."""
    return next(theirs for theirs, each in ACTIVATIONS.items() if each == ours)


def refuse_choice(content: Mapping[str, Any], field: str, usual: object) -> None:
    """Refuse a field with another value than the usual one."""
    if content.get(field, usual) != usual:
        raise ModelFolderError(
            f"config.json has {field}={str(content[field])[:40]}; Sixfold supports only {usual}."
        )


def refuse_not_ours(config: BlockConfig, needed: Mapping[str, object], format_name: str) -> None:
    """Refuse a model that a foreign class cannot express, with the reason."""
    if config.key_value_heads == config.heads:
        config = config.model_copy(update={"key_value_heads": 0})  # which means the same
    for name, value in sorted(needed.items(), key=lambda item: item[0] not in MOST_TELLING):
        found = getattr(config, name)
        if found != value:
            raise ConfigError(f"{format_name} cannot express model.{name}={found}; it supports only {value}.")
    d_k, d_v = config.head_widths
    if d_k != d_v:
        raise ConfigError(f"{format_name} needs d_k = d_v; this model has d_k={d_k} and d_v={d_v}.")
