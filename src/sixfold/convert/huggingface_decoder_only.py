"""Hugging Face folders of decoder-only models: GPT-2 and Llama, read and written. Nothing in them is executed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from sixfold.callbacks import OnProgress, no_progress
from sixfold.convert import huggingface_gpt2, huggingface_llama
from sixfold.convert.chat_templates import as_jinja
from sixfold.convert.compare_logits import Logits
from sixfold.convert.foreign_config import HuggingFaceFormat, values_of
from sixfold.convert.huggingface_folder import (
    CONFIG,
    GENERATION,
    TOKENIZER,
    Prefixed,
    class_of,
    is_installed,
    read_optional,
    read_tokenizer,
    write_json,
)
from sixfold.convert.huggingface_tokenizer import as_tokenizer_json
from sixfold.convert.name_table import to_ours, to_theirs
from sixfold.convert.published import Published, TokenNames, published, whole_number
from sixfold.convert.quiet import be_quiet
from sixfold.convert.safetensors_folder import SafetensorsFolder, read_json
from sixfold.errors import MissingExtraError, ModelFolderError
from sixfold.models.decoder_only import DecoderOnlyConfig
from sixfold.models.folder import Json, Processor
from sixfold.models.weights import Weights
from sixfold.text import AnyTokenizer, Tokenizer
from sixfold.text.tokenizer_json import FILE_NAME, LARGEST_FILE

if TYPE_CHECKING:
    from transformers import PreTrainedModel

JINJA = "chat_template.jinja"
FORMATS = {each.FORMAT.architecture: each.FORMAT for each in (huggingface_gpt2, huggingface_llama)}
PLAIN = {format_.model_type: name for name, format_ in FORMATS.items()}
TIED_HEAD = re.compile(r"lm_head\.weight")  # some files contain the embedding twice


def read_folder(folder: Path, chat: str, on_progress: OnProgress = no_progress) -> Published:
    """Read a folder; `chat` chooses the chat template."""
    tokenizer, content = read_tokenizer(folder), read_json(folder / CONFIG)
    with values_of(f"The configuration of {folder}"):
        format_ = class_of(content, FORMATS, PLAIN)
        config = format_.read_config(content)
        names, jinja = token_names(folder, content), read_jinja(folder)
    ignored = (*format_.ignored, TIED_HEAD) if config.tied else format_.ignored
    with SafetensorsFolder(folder) as files:
        tensors = Prefixed(files, format_.prefix)
        weights = to_ours(tensors, config, format_.table, str(folder), ignored, on_progress)
    return published(config, weights, tokenizer, names, jinja, chat, origin_of(folder, format_))


# The tokenizer


def token_names(folder: Path, config: Mapping[str, Any]) -> TokenNames:
    """Return the special tokens from the folder's configurations; generation_config.json takes precedence."""
    said = read_optional(folder / TOKENIZER)
    ids = {
        **config,
        **{name: value for name, value in read_optional(folder / GENERATION).items() if value is not None},
    }
    described = read_json(folder / FILE_NAME) if (folder / FILE_NAME).is_file() else {}
    known = {
        str(token.get("content")): token.get("id")
        for token in described.get("added_tokens") or []
        if isinstance(token, dict)
    }
    found: dict[str, int | None] = {}
    for name in ("bos", "eos", "pad", "unk"):
        written = said.get(f"{name}_token")
        text = written.get("content") if isinstance(written, dict) else written
        found[name] = whole_number(ids.get(f"{name}_token_id"))
        if found[name] is None and isinstance(text, str):
            found[name] = whole_number(known.get(text))
    starts = found["bos"] is not None and (
        said.get("add_bos_token") is True or puts_first(described, known, found["bos"])
    )
    return TokenNames(found["bos"], found["eos"], found["pad"], found["unk"], starts)


def puts_first(described: Mapping[str, Any], known: Mapping[str, Any], bos: int | None) -> bool:
    """Return whether a tokenizer.json prepends a token to every text."""
    processor = described.get("post_processor") or {}
    steps = processor.get("processors") or [processor] if isinstance(processor, dict) else []
    singles = [step.get("single") or [] for step in steps if isinstance(step, dict)]
    firsts = [single[0] for single in singles if isinstance(single, list) and single]
    names = [first.get("SpecialToken", {}).get("id") for first in firsts if isinstance(first, dict)]
    return any(known.get(str(name)) == bos for name in names)


def read_jinja(folder: Path) -> str | None:
    """Return the text of the chat template, if there is one."""
    path = folder / JINJA
    if path.is_file():
        if path.stat().st_size > LARGEST_FILE:
            raise ModelFolderError(f"{path} has more than {LARGEST_FILE:,} bytes.")
        return path.read_text(encoding="utf-8", errors="replace")
    template = read_optional(folder / TOKENIZER).get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {str(each.get("name")): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def origin_of(folder: Path, format_: HuggingFaceFormat[DecoderOnlyConfig]) -> dict[str, Json]:
    """Return what the folder states about its origin."""
    return {"name": folder.resolve().name, "format": f"Hugging Face, {format_.architecture}"}


# The same model in transformers


def reference(folder: Path) -> Logits | None:
    """Return the logits of the model in a folder by transformers, or None if that is not installed."""
    if not is_installed():
        return None
    be_quiet()
    import transformers

    architecture = class_of(read_json(folder / CONFIG), FORMATS, PLAIN).architecture
    # A class of the package itself, never code from the folder; safetensors, never pickles.
    model = getattr(transformers, architecture).from_pretrained(
        folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False, local_files_only=True
    )
    return logits_of(model)


def reference_of_weights(config: DecoderOnlyConfig, weights: Weights) -> Logits | None:
    """Return the logits of a model with these weights by transformers, or None if that is not installed."""
    return logits_of(their_model(config, weights)) if is_installed() else None


def their_model(config: DecoderOnlyConfig, weights: Weights) -> PreTrainedModel:
    """Return a model of ours as one of transformers; refuse it with the reason if that is impossible."""
    if not is_installed():
        raise MissingExtraError("transformers", "export", "An export to Hugging Face")
    be_quiet()
    import transformers

    format_ = format_of(config)
    make_config = transformers.CONFIG_MAPPING[format_.model_type]
    model: PreTrainedModel = getattr(transformers, format_.architecture)(
        make_config(**format_.write_config(config))
    )
    state = to_theirs(weights, config, format_.table)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert set(missing) <= {"lm_head.weight"}, missing
    model.tie_weights()
    return model


def logits_of(model: PreTrainedModel) -> Logits:
    """Return the function from tokens (1, T) to logits (T, V)."""
    model.eval()
    return lambda tokens: cast("Tensor", model(tokens).logits[0])


def format_of(config: DecoderOnlyConfig) -> HuggingFaceFormat[DecoderOnlyConfig]:
    """Return the class for a model of ours."""
    return huggingface_llama.FORMAT if config.positions == "rotary" else huggingface_gpt2.FORMAT


# Our tokenizer in transformers


def write_tokenizer(tokenizer: AnyTokenizer, side: Processor, folder: Path, config: DecoderOnlyConfig) -> None:
    """Write a tokenizer that gives the same ids, and the chat template in Jinja."""
    ours = as_tokenizer_json(tokenizer) if isinstance(tokenizer, Tokenizer) else tokenizer.model
    (folder / FILE_NAME).write_bytes(with_start(ours, tokenizer, side.decoder_start))
    special = {name: tokenizer.pieces([getattr(side.special, name)])[0] for name in ("bos", "eos", "pad", "unk")}
    content: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{name}_token": piece for name, piece in special.items()},
        "add_bos_token": side.decoder_start is not None,
        "model_max_length": config.max_positions,
        "clean_up_tokenization_spaces": False,
    }
    if side.chat is not None:
        begin = "" if side.decoder_start is None else tokenizer.pieces([side.decoder_start])[0]
        content["chat_template"] = as_jinja(replace(side.chat, begin=begin + side.chat.begin))
    write_json(folder / TOKENIZER, content)
    ids = {f"{name}_token_id": getattr(side.special, name) for name in ("bos", "eos", "pad")}
    for name in (CONFIG, GENERATION):
        write_json(folder / name, read_optional(folder / name) | ids)


def with_start(tokenizer_json: bytes, tokenizer: AnyTokenizer, start: int | None) -> bytes:
    """Return a tokenizer.json that prepends our start token to every text."""
    if start is None:
        return tokenizer_json
    piece = tokenizer.pieces([start])[0]
    single = [{"SpecialToken": {"id": piece, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    processor = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {piece: {"id": piece, "ids": [start], "tokens": [piece]}},
    }
    return json.dumps(json.loads(tokenizer_json) | {"post_processor": processor}, ensure_ascii=False).encode()
