"""The model card: a README.md that people can read."""

from __future__ import annotations

from typing import cast

from sixfold.decode.config import decode_config
from sixfold.models.encoder_decoder import EncoderDecoderConfig
from sixfold.models.folder import ModelInfo


def model_card(info: ModelInfo, parameters: int) -> str:
    """Describe a model, what it was made from and how to use it."""
    languages = f"{info.languages.source or 'source'} → {info.languages.target or 'target'}"
    validation = info.scores.get("validation")
    scores = validation if isinstance(validation, dict) else {}
    shape, decode = cast("EncoderDecoderConfig", info.model), decode_config(info)
    files = info.corpus.get("files")
    names = [str(file["path"]) for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    members = len(info.weights)
    several = f"{members} Transformers whose predictions are averaged, each with"
    kind = several if members > 1 else "Transformer,"
    return f"""# A translation model, {languages}

Trained with Sixfold {info.sixfold} from {info.corpus.get("pairs", 0):,} pairs of text ({", ".join(names)}).

    echo "your text" | sixfold translate .

| | |
|---|---|
| architecture | {kind} {shape.encoder_layers} + {shape.decoder_layers} layers, width {shape.d_model}, \
feed-forward {shape.d_ff}, {shape.heads} heads, {shape.norm}-norm, dropout {shape.dropout} |
| parameters | {parameters:,} |
| vocabulary | {shape.vocabulary:,} subwords for both languages, any Unicode text |
| validation | BLEU {scores.get("score", float("nan")):.1f}, loss {scores.get("loss", float("nan")):.3f} \
at step {scores.get("step", 0):.0f} ({scores.get("weights", "")}; {scores.get("conditions", "")}) |
| decoding | beam {decode.beam}, length penalty {decode.length_penalty} |

The validation text was held out of the training text or given apart; it is of the same kind, so expect less on
other kinds. The model has no knowledge beyond its training text and can be wrong with confidence.
Nothing in this folder is executed when it is loaded. `training/`, if it is there, is only needed to train further.
"""
