"""Hugging Face's encoder-only classes: families of one encoder, whose classes differ in their heads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sixfold.convert.foreign_config import (
    Fields,
    HuggingFaceFormat,
    activation_of,
    refuse_choice,
    refuse_not_ours,
    renamed,
    their_activation,
)
from sixfold.convert.name_table import Table
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.encoder_only import BERT, EncoderOnlyConfig, HeadName

EncoderFormat = HuggingFaceFormat[EncoderOnlyConfig]

NOT_WEIGHTS = (
    re.compile(r".*embeddings\.(position_ids|token_type_ids)"),  # counted, in older files
    re.compile(r"cls\.seq_relationship\..*"),  # of BERT's pretraining on pairs of sentences
    re.compile(r"(cls\.predictions|lm_head)\.decoder\..*|vocab_projector\.weight"),  # tied, stored again
)


@dataclass(frozen=True)
class HeadNames:
    """A class with one of the heads."""

    suffix: str  # of the class's name
    table: Table


@dataclass(frozen=True)
class Family:
    """Classes that share an encoder and its configuration."""

    name: str  # that their names begin with
    model_type: str
    prefix: str  # of the encoder's tensors in all classes but the plain one
    body: Table
    heads: Mapping[HeadName, HeadNames]
    fields: Fields
    activation: str  # what its field is called
    defaults: Mapping[str, Any]  # what a config.json means that leaves a field out
    fixed: Mapping[str, Any]  # what our configuration always is for them
    refused: Mapping[str, object]  # their fields that we do not compute, with the value that we do
    class_pooler: str  # the activation of the layer before a classifier

    def formats(self) -> Iterator[EncoderFormat]:
        """Yield each class."""
        for head, names in self.heads.items():
            yield HuggingFaceFormat(
                self.name + names.suffix,
                self.model_type,
                {**self.body, **names.table},
                partial(self.read_config, head),
                self.write_config,
                ignored=NOT_WEIGHTS,
                prefix=f"{self.prefix}.",
            )

    def read_config(self, head: HeadName, content: Mapping[str, Any]) -> EncoderOnlyConfig:
        """Return the configuration of the same model, or refuse what we do not compute."""
        content = {**self.defaults, **content}
        for field, value in self.refused.items():
            refuse_choice(content, field, value)
        choices = renamed(content, self.fields)
        choices["activation"] = activation_of(content, self.activation)
        if head in ("class", "tag"):
            choices["labels"] = len(label_names(content))
        if head == "class":
            choices["pooler"] = self.class_pooler
        return EncoderOnlyConfig(**{**BERT, **self.fixed, **choices, "head": head})

    def write_config(self, config: EncoderOnlyConfig) -> dict[str, Any]:
        """Return config.json of the same model, or refuse a model that these classes cannot express."""
        plain = {"norm_kind": "layer", "gated": False, "feed_forward_bias": True, "score_scale": 0.0}
        needed = {**BERT, **plain, **self.fixed, "norm": "post", "key_value_heads": 0}
        free = {*self.fields, "activation", "pooler"}
        if config.head == "class":
            needed |= {"pooler": self.class_pooler, "pooling": "first"}
            free.remove("pooler")
        needed = {name: value for name, value in needed.items() if name not in free}
        refuse_not_ours(config, needed, f"Hugging Face's {self.name}")
        if config.head_widths[0] * config.heads != config.d_model:
            raise ConfigError(
                f"Hugging Face's {self.name} has heads that share d_model evenly; this model sets d_k."
            )
        content = {theirs: getattr(config, ours) for ours, theirs in self.fields.items()}
        return {**content, self.activation: their_activation(config.activation)}


def label_names(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the labels, in the order of their numbers."""
    names = content.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    numbered = {int(number): str(name) for number, name in names.items()}
    if sorted(numbered) != list(range(len(numbered))):
        raise ModelFolderError("config.json numbers its labels (id2label) with gaps.")
    return tuple(numbered[number] for number in range(len(numbered)))
