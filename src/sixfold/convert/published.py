"""A published decoder-only model, read and checked, to be written as a model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sixfold.convert.chat_templates import KNOWN, recognised
from sixfold.convert.safetensors_folder import narrowest
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.decoder_only import DecoderOnlyConfig
from sixfold.models.folder import Json, ModelInfo, Processor, save_model
from sixfold.models.weights import Weights
from sixfold.text.chat import ChatTemplate
from sixfold.text.published_tokenizer import PublishedTokenizer
from sixfold.text.special import SpecialIds
from sixfold.text.tokenizer_json import Description, read_description

FREE_CHOICES = ("auto", "none")  # of --chat, besides the names of templates


@dataclass(frozen=True)
class Published:
    """Everything needed to write a model folder."""

    config: DecoderOnlyConfig
    weights: Weights
    tokenizer: PublishedTokenizer
    decoder_start: int | None
    chat: ChatTemplate | None
    origin: Mapping[str, Json] = field(default_factory=dict)  # name, licence, source


@dataclass(frozen=True)
class TokenNames:
    """The special tokens stated by the publisher: ids, or None if not stated."""

    bos: int | None
    eos: int | None
    pad: int | None = None
    unk: int | None = None
    starts_with_bos: bool = False


def published(
    config: DecoderOnlyConfig,
    weights: Weights,
    tokenizer_json: bytes,
    names: TokenNames,
    jinja: str | None,
    chat: str,
    origin: Mapping[str, Json],
) -> Published:
    """Assemble a published model; `chat` chooses the chat template."""
    content = filled_up(tokenizer_json, config.vocabulary)
    described = read_description(content)
    if not described.form.is_lossless:
        raise ModelFolderError("The tokenizer loses text (WordPiece), so a model that generates cannot have it.")
    template = chat_template(jinja, chat, names, described)
    special = special_ids(names, template, described)
    start = names.bos if names.starts_with_bos else None
    if template is not None and start is not None:
        template = replace(template, begin=template.begin.removeprefix(name_of(start, described)))
    return Published(config, weights, PublishedTokenizer(content, special), start, template, origin)


def filled_up(tokenizer_json: bytes, vocabulary: int) -> bytes:
    """Return a tokenizer.json padded to the model's vocabulary: many models have rows that no token uses."""
    described = read_description(tokenizer_json)
    known = len(described.vocabulary) + len(described.special)
    if known > vocabulary:
        raise ModelFolderError(f"The tokenizer has {known:,} tokens, but the model has {vocabulary:,}.")
    if known == vocabulary:
        return tokenizer_json
    content = json.loads(tokenizer_json)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content["added_tokens"] += [
        {"id": token, "content": f"<|unused_{token}|>", **flags, "special": True}
        for token in range(known, vocabulary)
    ]
    return json.dumps(content, ensure_ascii=False).encode()


def chat_template(jinja: str | None, chat: str, names: TokenNames, described: Description) -> ChatTemplate | None:
    """Return the chat template: the publisher's as plain data, a known one by name, or none."""
    if chat in KNOWN:
        return KNOWN[chat]
    if chat not in FREE_CHOICES:
        raise ConfigError(f"There is no chat template {chat!r}.", f"Known: {', '.join((*FREE_CHOICES, *KNOWN))}.")
    if chat == "none" or jinja is None:
        return None
    tokens = {"bos_token": names.bos, "eos_token": names.eos}
    return recognised(jinja, {name: name_of(token, described) for name, token in tokens.items()})


def special_ids(names: TokenNames, template: ChatTemplate | None, described: Description) -> SpecialIds:
    """Return the ids of special tokens; EOS is the token that ends an answer, if there is one."""
    ends = [token for mark, token in described.special.items() if template and mark in template.assistant[1]]
    eos = ends[0] if ends and names.eos not in ends else names.eos
    if eos is None:
        raise ModelFolderError("The model's configuration has no EOS token (eos_token_id).")
    bos, pad, unk = (eos if token is None else token for token in (names.bos, names.pad, names.unk))
    return SpecialIds(pad, bos, eos, unk)


def name_of(token: int | None, described: Description) -> str:
    """Return the string of a special token, or an empty string."""
    return next((name for name, number in described.special.items() if number == token), "")


def write(model: Published, out: Path) -> ModelInfo:
    """Write a model folder with the smallest type of weights that keeps every value."""
    import sixfold

    dtype, _ = narrowest(model.weights)
    processor = Processor(
        tokenizer=model.tokenizer.file_name,
        special=model.tokenizer.special,
        decoder_start=model.decoder_start,
        chat=model.chat,
    )
    info = ModelInfo(
        kind="decoder_only",
        task="generate",
        sixfold=sixfold.__version__,
        model=model.config,
        processors={"text": processor},
        training={"imported": dict(model.origin)},
        dtype=dtype,
    )
    save_model(out, info, [model.weights], model.tokenizer, card(model, dtype))
    return info


def card(model: Published, dtype: str) -> str:
    """Return the model card."""
    config, origin = model.config, model.origin
    rows = "".join(f"| {name} | {value} |\n" for name, value in origin.items())
    count = sum(tensor.numel() for tensor in model.weights.values())
    chat = '\n    sixfold generate . --chat "Hello"' if model.chat else ""
    return f"""# {origin.get("name", "A published model")}, for Sixfold

Imported; the weights have their published values.

    sixfold generate . "Once upon a time"{chat}

| | |
|---|---|
{rows}\
| architecture | decoder-only, {config.layers} layers, width {config.d_model}, feed-forward {config.d_ff}, \
{config.heads} heads |
| parameters | {count:,}, stored as {dtype} |
| vocabulary | {config.vocabulary:,} tokens |
| context | {config.max_positions:,} tokens |

The model can be confidently wrong. Nothing in this folder is executed when it is loaded.
"""


def whole_number(value: Any) -> int | None:
    """Return an id in a configuration, the first of several, or None."""
    first = value[0] if isinstance(value, Sequence) and not isinstance(value, str) and value else value
    return first if type(first) is int and first >= 0 else None
