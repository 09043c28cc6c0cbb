"""GPT-2 in Hugging Face's names: `GPT2LMHeadModel`."""

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
from sixfold.errors import ConfigError
from sixfold.models.decoder_only import GPT, DecoderOnlyConfig

FIELDS: Fields = {
    "vocabulary": "vocab_size",
    "max_positions": "n_positions",
    "d_model": "n_embd",
    "layers": "n_layer",
    "heads": "n_head",
    "d_ff": "n_inner",
    "norm_epsilon": "layer_norm_epsilon",
    "tied": "tie_word_embeddings",
    "dropout": "resid_pdrop",
}
DEFAULTS: dict[str, Any] = {  # for fields that a config.json omits
    "n_inner": None,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
    "resid_pdrop": 0.1,
    "activation_function": "gelu_new",
}
PLAIN = {
    "norm_kind": "layer",
    "gated": False,
    "feed_forward_bias": True,
    "key_value_heads": 0,
    "scaled_embedding": False,
}

LAYER = "transformer.h.{}"
TABLE: Table = {
    "stem.embedding": "transformer.wte",
    "stem.positions": "transformer.wpe",
    "stack.layers.{}.self_attention_norm": f"{LAYER}.ln_1",
    "stack.layers.{}.self_attention.project": (Stored(f"{LAYER}.attn.c_attn", is_transposed=True),),
    "stack.layers.{}.self_attention.output": (Stored(f"{LAYER}.attn.c_proj", is_transposed=True),),
    "stack.layers.{}.feed_forward_norm": f"{LAYER}.ln_2",
    "stack.layers.{}.feed_forward.inner": (Stored(f"{LAYER}.mlp.c_fc", is_transposed=True),),
    "stack.layers.{}.feed_forward.outer": (Stored(f"{LAYER}.mlp.c_proj", is_transposed=True),),
    "stack.norm": "transformer.ln_f",
    "head": "lm_head",
}


def read_config(content: Mapping[str, Any]) -> DecoderOnlyConfig:
    """Return our configuration; refuse unsupported choices."""
    content = DEFAULTS | {**content}
    refuse_choice(content, "add_cross_attention", False)
    refuse_choice(content, "scale_attn_by_inverse_layer_idx", False)
    choices = renamed(content, FIELDS)
    choices["d_ff"] = choices["d_ff"] or 4 * int(choices["d_model"])
    choices["activation"] = activation_of(content, "activation_function")
    choices["score_scale"] = 0.0 if content.get("scale_attn_weights", True) else 1.0
    return DecoderOnlyConfig(**{**GPT, **choices})


def write_config(config: DecoderOnlyConfig) -> dict[str, Any]:
    """Return config.json; refuse a model that GPT-2's class cannot express."""
    refuse_not_ours(config, {**GPT, **PLAIN, "activation": config.activation}, "Hugging Face's GPT-2")
    if config.head_widths[0] * config.heads != config.d_model:
        raise ConfigError("Hugging Face's GPT-2 needs d_k = d_model / heads; this model sets d_k.")
    if config.score_scale not in (0.0, 1.0):
        raise ConfigError(f"Hugging Face's GPT-2 cannot express model.score_scale={config.score_scale:g}.")
    content = {theirs: getattr(config, ours) for ours, theirs in FIELDS.items()}
    dropout = {"embd_pdrop": config.dropout, "attn_pdrop": 0.0}
    return {
        **content,
        **dropout,
        "activation_function": their_activation(config.activation),
        "scale_attn_weights": not config.score_scale,
    }


FORMAT = HuggingFaceFormat(
    "GPT2LMHeadModel",
    "gpt2",
    TABLE,
    read_config,
    write_config,
    ignored=(re.compile(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)"),),  # masks, in older files
    prefix="transformer.",  # GPT-2's own files omit it
)
