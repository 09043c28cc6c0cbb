"""The card of an encoder and what it answers."""

from __future__ import annotations

from typing import cast

from sixfold.models.encoder_only import EncoderOnlyConfig
from sixfold.models.folder import ModelInfo
from sixfold.training.card import Card

MOST_SHOWN = 30  # labels


def card(info: ModelInfo, examples: str) -> Card:
    """Describe an encoder that answers."""
    shape = cast("EncoderOnlyConfig", info.model)
    return Card(
        title=f"A model for the task {info.task}",
        examples=f"{info.corpus.get(examples, 0):,} {examples}",
        command=f"sixfold {info.task} . texts.txt",
        rows={
            "architecture": f"encoder-only Transformer, {shape.layers} layers, width {shape.d_model}, "
            f"feed-forward {shape.d_ff}, {shape.heads} heads, {shape.norm}-norm, dropout {shape.dropout}",
            "reads": f"at most {info.processors['text'].max_tokens:,} tokens of a text",
            "vocabulary": f"{shape.vocabulary:,} tokens",
            **label_row(info),
        },
        expectation="lower scores",
        caution="Whatever it is given, it answers as if that were of the same kind.",
    )


def label_row(info: ModelInfo) -> dict[str, str]:
    """Return the row that lists the labels, if there are some."""
    if info.labels is None:
        return {}
    names = ", ".join(info.labels.names[:MOST_SHOWN]) + (" …" if len(info.labels.names) > MOST_SHOWN else "")
    return {"labels": names}
