"""The model card: a README.md that describes an encoder and what it answers."""

from __future__ import annotations

from typing import cast

from sixfold.models.encoder_only import EncoderOnlyConfig
from sixfold.models.folder import ModelInfo
from sixfold.training.card import base_rows, file_names, how_it_was_made

MOST_SHOWN = 30  # labels


def model_card(info: ModelInfo, parameters: int, examples: str) -> str:
    """Describe a model, what it was made from and how to use it."""
    validation = info.scores.get("validation")
    scores = validation if isinstance(validation, dict) else {}
    shape = cast("EncoderOnlyConfig", info.model)
    return f"""# A model for the task {info.task}

{how_it_was_made(info)} with Sixfold {info.sixfold} from {info.corpus.get(examples, 0):,} {examples} \
({file_names(info)}).

    sixfold {info.task} . texts.txt

| | |
|---|---|
| architecture | encoder-only Transformer, {shape.layers} layers, width {shape.d_model}, \
feed-forward {shape.d_ff}, {shape.heads} heads, {shape.norm}-norm, dropout {shape.dropout} |
| parameters | {parameters:,} |
| reads | at most {info.processors["text"].max_tokens:,} tokens of a text |
| vocabulary | {shape.vocabulary:,} tokens |
{label_row(info)}\
| validation | {scores.get("name", "score")} {scores.get("score", float("nan")):.{scores.get("decimals", 1)}f}, \
loss {scores.get("loss", float("nan")):.3f} at step {scores.get("step", 0):.0f} \
({scores.get("weights", "")}; {scores.get("conditions", "")}) |
{base_rows(info)}\

The validation examples are of the same kind as the training examples: expect lower scores on others.
Nothing in this folder is executed when it is loaded. `training/`, if it is there, is only needed to train further.
"""


def label_row(info: ModelInfo) -> str:
    """Return the row that lists the labels, if there are some."""
    if info.labels is None:
        return ""
    names = ", ".join(info.labels.names[:MOST_SHOWN]) + (" …" if len(info.labels.names) > MOST_SHOWN else "")
    return f"| labels | {names} |\n"
