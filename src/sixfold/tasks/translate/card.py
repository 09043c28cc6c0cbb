"""The model card: a README.md that describes a model."""

from __future__ import annotations

from typing import cast

from sixfold.decode.config import decode_config
from sixfold.models.encoder_decoder import EncoderDecoderConfig
from sixfold.models.folder import ModelInfo
from sixfold.training.card import base_rows, file_names, how_it_was_made


def model_card(info: ModelInfo, parameters: int) -> str:
    """Describe a model, its training and how to use it."""
    languages = f"{info.languages.source or 'source'} → {info.languages.target or 'target'}"
    validation = info.scores.get("validation")
    scores = validation if isinstance(validation, dict) else {}
    shape, decode = cast("EncoderDecoderConfig", info.model), decode_config(info)
    members = len(info.weights)
    several = f"ensemble of {members} Transformers whose probabilities are averaged, each with"
    kind = several if members > 1 else "Transformer,"
    return f"""# A translation model, {languages}

{how_it_was_made(info)} with Sixfold {info.sixfold} from {info.corpus.get("pairs", 0):,} pairs of text \
({file_names(info)}).

    echo "your text" | sixfold translate .

| | |
|---|---|
| architecture | {kind} {shape.encoder_layers} + {shape.decoder_layers} layers, width {shape.d_model}, \
feed-forward {shape.d_ff}, {shape.heads} heads, {shape.norm}-norm, dropout {shape.dropout} |
| parameters | {parameters:,} |
| vocabulary | {shape.vocabulary:,} subwords for both languages, any Unicode text |
| validation | BLEU {scores.get("score", float("nan")):.1f}, loss {scores.get("loss", float("nan")):.3f} \
at step {scores.get("step", 0):.0f} ({scores.get("weights", "")}; {scores.get("conditions", "")}) |
{base_rows(info)}\
| decoding | beam {decode.beam}, length penalty {decode.length_penalty} |

The validation text is of the same kind as the training text: expect lower scores on other text.
The model knows nothing beyond its training text and can be confidently wrong.
Nothing in this folder is executed when it is loaded. `training/`, if it is there, is only needed to train further.
"""
