"""A published encoder, read and checked, to be written as a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sixfold.convert.safetensors_folder import narrowest
from sixfold.models.encoder_only import EncoderOnlyConfig, HeadName
from sixfold.models.folder import Json, Labels, ModelInfo, Processor, save_model
from sixfold.models.weights import Weights
from sixfold.text import AnyTokenizer
from sixfold.text.published_tokenizer import PublishedTokenizer
from sixfold.text.tokenizer_json import WordPiece

TASKS: dict[HeadName, str] = {
    "projection": "embed", "class": "classify", "tag": "tag", "span": "answer", "token": "fill",
}  # fmt: skip


@dataclass(frozen=True)
class PublishedEncoder:
    """Everything needed to write the model folder of an encoder."""

    config: EncoderOnlyConfig
    weights: Weights
    tokenizer: PublishedTokenizer
    side: Processor
    labels: Labels | None
    origin: Mapping[str, Json] = field(default_factory=dict)  # name, licence, source

    def write(self, out: Path) -> ModelInfo:
        """Write a model folder with the smallest type of weights that keeps every value."""
        import sixfold

        dtype, _ = narrowest(self.weights)
        info = ModelInfo(
            kind="encoder_only",
            task=TASKS[self.config.head],
            sixfold=sixfold.__version__,
            model=self.config,
            processors={"text": self.side},
            labels=self.labels,
            training={"imported": dict(self.origin)},
            dtype=dtype,
        )
        save_model(out, info, [self.weights], self.tokenizer, card(self, info))
        return info


def what_is_read(tokenizer: AnyTokenizer) -> str:
    """Return in words what a tokenizer keeps of a text."""
    if tokenizer.is_lossless:
        return "every character"
    assert isinstance(tokenizer, PublishedTokenizer)
    form = tokenizer.described.form
    assert isinstance(form, WordPiece)
    lost = ["case"] * form.lowercase + ["accents"] * form.strip_accents + ["spacing"]
    words = f"{', '.join(lost[:-1])} and {lost[-1]}" if len(lost) > 1 else lost[0]
    return f"words without {words}; a word that cannot be split into known pieces becomes {form.unknown}"


def card(model: PublishedEncoder, info: ModelInfo) -> str:
    """Return the model card."""
    config = model.config
    rows = "".join(f"| {name} | {value} |\n" for name, value in model.origin.items())
    count = sum(tensor.numel() for tensor in model.weights.values())
    labels = f"| labels | {', '.join(model.labels.names[:50])} |\n" if model.labels else ""
    return f"""# {model.origin.get("name", "A published model")}, for Sixfold

Imported; the weights have their published values. Its task is `{info.task}`.

| | |
|---|---|
{rows}{labels}\
| architecture | encoder-only, {config.layers} layers, width {config.d_model}, feed-forward {config.d_ff}, \
{config.heads} heads |
| parameters | {count:,}, stored as {info.dtype} |
| vocabulary | {config.vocabulary:,} tokens |
| longest text | {model.side.max_tokens:,} tokens |

The model can be confidently wrong. Nothing in this folder is executed when it is loaded.
"""
