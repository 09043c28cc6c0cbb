"""GGUF, the format of llama.cpp and Ollama: GPT-2 and Llama, read and written.

In GGUF, the rows of Llama's W^Q and W^K that rotary positions rotate as a pair are adjacent; ours are D/2 apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from sixfold.callbacks import OnProgress, no_progress
from sixfold.convert.chat_templates import as_jinja
from sixfold.convert.foreign_config import Fields, refuse_not_ours, values_of
from sixfold.convert.gguf_file import GgufFile, Value, read_gguf
from sixfold.convert.gguf_tokenizer import in_metadata, tokenizer_json, tokens_of
from sixfold.convert.huggingface_llama import MOST_POSITIONS
from sixfold.convert.name_table import Stored, Table, to_ours, to_theirs
from sixfold.convert.published import Published, TokenNames, published, whole_number
from sixfold.errors import ConfigError, MissingExtraError, ModelFolderError
from sixfold.models.decoder_only import GPT, LLAMA, DecoderOnlyConfig
from sixfold.models.folder import Json, Processor
from sixfold.models.weights import Weights
from sixfold.text import AnyTokenizer

if TYPE_CHECKING:
    from gguf import GGUFWriter

Precision = Literal["float32", "float16", "q8_0"]


@dataclass(frozen=True)
class GgufFormat:
    """An architecture: names of tensors and configuration fields, in both directions."""

    architecture: str
    table: Table
    fields: Fields  # without the prefix of the architecture
    ours: Mapping[str, Any]  # our configuration for every model of the architecture


SHAPE = {
    "max_positions": "context_length",
    "d_model": "embedding_length",
    "d_ff": "feed_forward_length",
    "layers": "block_count",
    "heads": "attention.head_count",
}
AROUND_LAYERS = {"stem.embedding": "token_embd", "stack.norm": "output_norm", "head": "output"}
IN_EVERY_LAYER = {
    "stack.layers.{}.self_attention_norm": "blk.{}.attn_norm",
    "stack.layers.{}.self_attention.output": "blk.{}.attn_output",
    "stack.layers.{}.feed_forward_norm": "blk.{}.ffn_norm",
    "stack.layers.{}.feed_forward.outer": "blk.{}.ffn_down",
}
LLAMA_FORMAT = GgufFormat(
    "llama",
    {
        **AROUND_LAYERS,
        **IN_EVERY_LAYER,
        "stack.layers.{}.self_attention.project": (
            Stored("blk.{}.attn_q", turned_heads="query"),
            Stored("blk.{}.attn_k", turned_heads="key"),
            Stored("blk.{}.attn_v"),
        ),
        "stack.layers.{}.feed_forward.inner": "blk.{}.ffn_gate",
        "stack.layers.{}.feed_forward.gate": "blk.{}.ffn_up",
    },
    {**SHAPE, "key_value_heads": "attention.head_count_kv", "norm_epsilon": "attention.layer_norm_rms_epsilon"},
    LLAMA,
)
GPT2_FORMAT = GgufFormat(
    "gpt2",
    {
        **AROUND_LAYERS,
        **IN_EVERY_LAYER,
        "stem.positions": "position_embd",
        "stack.layers.{}.self_attention.project": "blk.{}.attn_qkv",
        "stack.layers.{}.feed_forward.inner": "blk.{}.ffn_up",
    },
    {**SHAPE, "norm_epsilon": "attention.layer_norm_epsilon"},
    {**GPT, "norm_kind": "layer", "gated": False, "feed_forward_bias": True, "key_value_heads": 0},
)
FORMATS = {each.architecture: each for each in (LLAMA_FORMAT, GPT2_FORMAT)}


# From GGUF


def read_file(path: Path, chat: str, on_progress: OnProgress = no_progress) -> Published:
    """Read a file; `chat` says which template the model gets."""
    file = read_gguf(path)
    format_ = architecture_of(file)
    with values_of(str(path)):
        config = read_config(file, format_)
    weights = to_ours(file, config, format_.table, str(path), on_progress=on_progress)
    if not config.tied and torch.equal(weights["head.weight"], weights["stem.embedding.weight"]):
        del weights["head.weight"]  # some files contain it twice
        config = config.model_copy(update={"tied": True})
    tokenizer, jinja = tokenizer_json(file.fields), file.fields.get("tokenizer.chat_template")
    template = jinja if isinstance(jinja, str) else None
    return published(config, weights, tokenizer, token_names(file), template, chat, origin_of(file))


def architecture_of(file: GgufFile) -> GgufFormat:
    """Return the tables for a file's architecture; refuse fields that change its mathematics."""
    name = file.fields.get("general.architecture")
    if not isinstance(name, str) or name not in FORMATS:
        raise ModelFolderError(
            f"{file.path} has the architecture {str(name)[:40]!r}, which Sixfold does not import.",
            f"Known: {', '.join(FORMATS)}.",
        )
    usual = {
        "rope.scaling.type": "none",
        "expert_count": 0,
        "attention.sliding_window": 0,
        "rope.scaling.factor": 1.0,
    }
    for field, value in usual.items():
        found = file.fields.get(f"{name}.{field}", value)
        if found != value:
            raise ModelFolderError(f"{file.path} has {name}.{field}={found}, which Sixfold does not support.")
    return FORMATS[name]


def read_config(file: GgufFile, format_: GgufFormat) -> DecoderOnlyConfig:
    """Return the configuration from the fields and the names of the tensors."""
    fields = {name.removeprefix(f"{format_.architecture}."): value for name, value in file.fields.items()}
    choices = {ours: fields[theirs] for ours, theirs in format_.fields.items() if theirs in fields}
    choices["norm_epsilon"] = as_written(choices["norm_epsilon"])
    choices["max_positions"] = min(int(str(choices["max_positions"])), MOST_POSITIONS)
    choices["vocabulary"] = file.tensors["token_embd.weight"].shape[0]
    choices["tied"] = "output.weight" not in file.tensors
    if format_ is LLAMA_FORMAT:
        choices |= llama_choices(file, fields)
    return DecoderOnlyConfig(**{**format_.ours, "dropout": 0.0, **choices})


def llama_choices(file: GgufFile, fields: Mapping[str, Value]) -> dict[str, Any]:
    """Return the choices of a Llama: base of rotary positions, biases, and width of a head."""
    base = as_written(fields.get("rope.freq_base", 10_000.0))
    biases = {
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "feed_forward_bias": "blk.0.ffn_up.bias" in file.tensors,
    }
    width = int(str(fields["embedding_length"])) // int(str(fields["attention.head_count"]))
    key, value = (fields.get(f"attention.{each}_length", width) for each in ("key", "value"))
    turned = fields.get("rope.dimension_count", key)
    if turned != key:
        raise ModelFolderError(
            f"{file.path} rotates {turned} of a head's {key} dimensions; Sixfold supports only all."
        )
    widths = {"d_k": key, "d_v": value} if (key, value) != (width, width) else {}
    return {"rotary_base": base, **biases, **widths}


def as_written(value: object) -> float:
    """Return the shortest number that is equal in float32, the type of stored fields: 1e-5."""
    return float(str(np.float32(str(value))))


def token_names(file: GgufFile) -> TokenNames:
    """Return the file's special tokens."""
    fields = file.fields
    names = ("bos", "eos", "padding", "unknown")
    bos, eos, pad, unk = (whole_number(fields.get(f"tokenizer.ggml.{name}_token_id")) for name in names)
    starts = fields.get("tokenizer.ggml.add_bos_token", fields.get("tokenizer.ggml.model") == "llama")
    return TokenNames(bos, eos, pad, unk, bos is not None and starts is True)


def origin_of(file: GgufFile) -> dict[str, Json]:
    """Return what the file states about its origin."""
    known = {"name": "general.name", "licence": "general.license", "author": "general.organization"}
    said = {ours: str(file.fields[theirs])[:200] for ours, theirs in known.items() if theirs in file.fields}
    kinds = sorted({tensor.kind.name for tensor in file.tensors.values()})
    return {"name": file.path.name, **said, "format": f"GGUF, stored as {', '.join(kinds)}"}


# To GGUF


def format_of(config: DecoderOnlyConfig) -> GgufFormat:
    """Return the architecture for a model; refuse one that none can express, with the reason."""
    format_ = LLAMA_FORMAT if config.positions == "rotary" else GPT2_FORMAT
    free = {"feed_forward_bias": config.feed_forward_bias} if format_ is LLAMA_FORMAT else {}
    refuse_not_ours(
        config,
        {**format_.ours, "score_scale": 0.0, "scaled_embedding": False, **free},
        f"GGUF's {format_.architecture}",
    )
    if format_ is GPT2_FORMAT and config.head_widths[0] * config.heads != config.d_model:
        raise ConfigError("GGUF's gpt2 needs d_k = d_model / heads; this model sets d_k.")
    return format_


def write_file(
    path: Path, config: DecoderOnlyConfig, weights: Weights, tokenizer: AnyTokenizer, side: Processor, name: str,
    precision: Precision = "float32",
) -> None:  # fmt: skip
    """Write a model, its tokenizer and its chat template to one file."""
    try:
        from gguf import GGUFWriter, LlamaFileType
    except ImportError as error:
        raise MissingExtraError("gguf", "published", "An export to GGUF") from error
    format_ = format_of(config)
    writer = GGUFWriter(path, format_.architecture)
    file_types = {"float32": "ALL_F32", "float16": "MOSTLY_F16", "q8_0": "MOSTLY_Q8_0"}
    writer.add_file_type(LlamaFileType[file_types[precision]])
    writer.add_quantization_version(2)
    writer.add_name(name)
    for field, value in (*config_fields(config, format_), *tokenizer_fields(tokenizer, side)):
        add(writer, field, value)
    for tensor_name, tensor in to_theirs(weights, config, format_.table).items():
        add_tensor(writer, tensor_name, tensor, precision)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def config_fields(config: DecoderOnlyConfig, format_: GgufFormat) -> Iterator[tuple[str, Any]]:
    """Yield the fields that describe the architecture."""
    if not config.key_value_heads:
        config = config.model_copy(update={"key_value_heads": config.heads})
    fields = {theirs: getattr(config, ours) for ours, theirs in format_.fields.items()}
    if format_ is LLAMA_FORMAT:
        width = config.head_widths[0]
        fields |= {"rope.freq_base": config.rotary_base, "rope.dimension_count": width}
        fields |= {"attention.key_length": width, "attention.value_length": width, "vocab_size": config.vocabulary}
    for field, value in fields.items():
        yield f"{format_.architecture}.{field}", value


def tokenizer_fields(tokenizer: AnyTokenizer, side: Processor) -> Iterator[tuple[str, Any]]:
    """Yield the fields of the tokenizer; a chat template includes the token before every text."""
    special, start = side.special, side.decoder_start
    yield from in_metadata(tokens_of(tokenizer))
    for name, token in (
        ("bos", special.bos),
        ("eos", special.eos),
        ("padding", special.pad),
        ("unknown", special.unk),
    ):
        yield f"tokenizer.ggml.{name}_token_id", token
    yield "tokenizer.ggml.add_bos_token", start is not None
    yield "tokenizer.ggml.add_eos_token", False
    if side.chat is not None:
        begin = "" if start is None else tokenizer.pieces([start])[0]
        yield "tokenizer.chat_template", as_jinja(replace(side.chat, begin=begin + side.chat.begin))


def add(writer: GGUFWriter, field: str, value: object) -> None:
    """Add a field with the type that readers expect."""
    if isinstance(value, bool):
        writer.add_bool(field, value)
    elif isinstance(value, int):
        writer.add_uint32(field, value)
    elif isinstance(value, float):
        writer.add_float32(field, value)
    elif isinstance(value, str):
        writer.add_string(field, value)
    else:
        assert isinstance(value, list)
        writer.add_array(field, value)


def add_tensor(writer: GGUFWriter, name: str, tensor: Tensor, precision: Precision) -> None:
    """Add a tensor; vectors and positions stay in float32, as readers expect."""
    from gguf import GGMLQuantizationType as Kind
    from gguf.quants import quantize

    numbers = tensor.float().numpy()
    is_matrix = tensor.dim() > 1 and name != "position_embd.weight"
    if precision == "float16" and is_matrix:
        writer.add_tensor(name, numbers.astype(np.float16))
    elif precision == "q8_0" and is_matrix and tensor.size(-1) % 32 == 0:
        writer.add_tensor(name, quantize(numbers, Kind.Q8_0), raw_dtype=Kind.Q8_0)
    else:
        writer.add_tensor(name, numbers)
