"""The model card: a README.md that describes a model."""

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
    several = f"ensemble of {members} Transformers whose probabilities are averaged, each with"
    kind = several if members > 1 else "Transformer,"
    return f"""# A translation model, {languages}

{beginning(info)} with Sixfold {info.sixfold} from {info.corpus.get("pairs", 0):,} pairs of text \
({", ".join(names)}).

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


def beginning(info: ModelInfo) -> str:
    """Return how the model was made: from scratch, or from which other one."""
    base = info.training.get("base")
    return f"Fine-tuned from the model {base['name']}" if isinstance(base, dict) else "Trained"


def base_rows(info: ModelInfo) -> str:
    """Return the rows on the model that a fine-tuned one came from, and how they compare; none for a new model."""
    base, scores, best = info.training.get("base"), info.scores.get("base"), info.scores.get("validation")
    if not (isinstance(base, dict) and isinstance(scores, dict) and isinstance(best, dict)):
        return ""
    digests = " and ".join(map(str, cast("list[str]", base["sha256"])))
    kept = "; nothing better was found, so these are its weights" if best["step"] == 0 else ""
    own, base_own = best.get("own_score"), scores.get("own_score")
    known = f"BLEU {own:.1f}; the base: {base_own:.1f}" if own is not None else "not measured: it was not there"
    return (
        f"| base model | {base['name']}, SHA-256 of its weights {digests} |\n"
        f"| the base on the same validation text | BLEU {scores['score']:.1f}{kept} |\n"
        f"| the base's own validation text | {known} |\n"
    )
