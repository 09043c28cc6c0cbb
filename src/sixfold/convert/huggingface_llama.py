"""Llama in Hugging Face's names: `LlamaForCausalLM`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sixfold.convert.foreign_config import (
    Fields,
    HuggingFaceFormat,
    activation_of,
    refuse_choice,
    refuse_not_ours,
    renamed,
    their_activation,
)
from sixfold.convert.name_table import Stored, Table
from sixfold.errors import ModelFolderError
from sixfold.models.decoder_only import LLAMA, DecoderOnlyConfig

MOST_POSITIONS = 65536  # the most that our configuration allows

FIELDS: Fields = {
    "vocabulary": "vocab_size",
    "max_positions": "max_position_embeddings",
    "d_model": "hidden_size",
    "d_ff": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "key_value_heads": "num_key_value_heads",
    "norm_epsilon": "rms_norm_eps",
    "attention_bias": "attention_bias",
    "feed_forward_bias": "mlp_bias",
    "tied": "tie_word_embeddings",
}
DEFAULTS: dict[str, Any] = {  # for fields that a config.json omits
    "max_position_embeddings": 2048,
    "num_key_value_heads": None,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}

LAYER = "model.layers.{}"
TABLE: Table = {
    "stem.embedding": "model.embed_tokens",
    "stack.layers.{}.self_attention_norm": f"{LAYER}.input_layernorm",
    "stack.layers.{}.self_attention.project": tuple(Stored(f"{LAYER}.self_attn.{part}_proj") for part in "qkv"),
    "stack.layers.{}.self_attention.output": f"{LAYER}.self_attn.o_proj",
    "stack.layers.{}.feed_forward_norm": f"{LAYER}.post_attention_layernorm",
    "stack.layers.{}.feed_forward.inner": f"{LAYER}.mlp.gate_proj",
    "stack.layers.{}.feed_forward.gate": f"{LAYER}.mlp.up_proj",
    "stack.layers.{}.feed_forward.outer": f"{LAYER}.mlp.down_proj",
    "stack.norm": "model.norm",
    "head": "lm_head",
}


def read_config(content: Mapping[str, Any]) -> DecoderOnlyConfig:
    """Return our configuration; refuse unsupported choices."""
    content = DEFAULTS | {**content}
    choices = renamed(content, FIELDS)
    choices["key_value_heads"] = choices["key_value_heads"] or choices["heads"]
    choices["max_positions"] = min(int(choices["max_positions"]), MOST_POSITIONS)
    choices["activation"] = activation_of(content, "hidden_act")
    choices["rotary_base"] = rotary_base(content)
    if width := content.get("head_dim"):
        choices |= {"d_k": width, "d_v": width}
    return DecoderOnlyConfig(**{**LLAMA, "dropout": 0.0, **choices})


def rotary_base(content: Mapping[str, Any]) -> float:
    """Return the base of rotary positions; refuse scaled ones."""
    refuse_choice(content, "partial_rotary_factor", 1.0)
    scaling = content.get("rope_parameters") or content.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind != "default":
        raise ModelFolderError(f"config.json scales rotary positions ({kind}), which Sixfold does not support.")
    refuse_choice(scaling, "partial_rotary_factor", 1.0)
    return float(scaling.get("rope_theta", content.get("rope_theta", 10_000.0)))


def write_config(config: DecoderOnlyConfig) -> dict[str, Any]:
    """Return config.json; refuse a model that Llama's class cannot express."""
    free = {"activation": config.activation, "feed_forward_bias": config.feed_forward_bias}
    plain = {"score_scale": 0.0, "scaled_embedding": False}
    refuse_not_ours(config, {**LLAMA, **free, **plain}, "Hugging Face's Llama")
    content = {theirs: getattr(config, ours) for ours, theirs in FIELDS.items()}
    rotary = {"rope_theta": config.rotary_base, "rope_type": "default"}
    heads = {"head_dim": config.head_widths[0], "num_key_value_heads": config.key_value_heads or config.heads}
    return {
        **content,
        **heads,
        "hidden_act": their_activation(config.activation),
        "rope_parameters": rotary,
        "attention_dropout": 0.0,
    }


FORMAT = HuggingFaceFormat(
    "LlamaForCausalLM",
    "llama",
    TABLE,
    read_config,
    write_config,
    ignored=(re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq"),),  # in older files
)
