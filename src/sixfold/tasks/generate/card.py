"""The model card: a README.md that describes a model."""

from __future__ import annotations

from typing import cast

from sixfold.models.decoder_only import DecoderOnlyConfig
from sixfold.models.folder import ModelInfo
from sixfold.training.card import base_rows, file_names, how_it_was_made


def model_card(info: ModelInfo, parameters: int) -> str:
    """Describe a model, its training and how to use it."""
    validation = info.scores.get("validation")
    scores = validation if isinstance(validation, dict) else {}
    shape, heads = cast("DecoderOnlyConfig", info.model), ""
    if shape.key_value_heads not in (0, shape.heads):
        heads = f" ({shape.key_value_heads} key-value heads)"
    chat = info.processors["text"].chat
    example = '--chat "your question"' if chat else '"Once upon a time"'
    score = f"{scores.get('score', float('nan')):.3f}"
    return f"""# A model that {"answers messages" if chat else "continues text"}

{how_it_was_made(info)} with Sixfold {info.sixfold} from {info.corpus.get("rows", 0):,} rows of text \
({file_names(info)}).

    sixfold generate . {example}

| | |
|---|---|
| architecture | decoder-only Transformer, {shape.layers} layers, width {shape.d_model}, \
feed-forward {shape.d_ff}, {shape.heads} heads{heads}, {shape.norm}-norm, {shape.positions} positions, \
dropout {shape.dropout} |
| parameters | {parameters:,} |
| context | {shape.max_positions:,} tokens |
| vocabulary | {shape.vocabulary:,} tokens, any Unicode text |
| validation | bits per byte {score}, loss {scores.get("loss", float("nan")):.3f} \
at step {scores.get("step", 0):.0f} ({scores.get("weights", "")}; {scores.get("conditions", "")}) |
{base_rows(info)}\

The validation text is of the same kind as the training text: expect more bits per byte on other text.
The model writes what is likely, not what is true.
Nothing in this folder is executed when it is loaded. `training/`, if it is there, is only needed to train further.
"""
