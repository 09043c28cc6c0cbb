"""DistilBERT in Hugging Face's names: BERT without token types and without a pooler."""

from __future__ import annotations

from typing import Any

from sixfold.convert.encoder_formats import Family, HeadNames
from sixfold.convert.foreign_config import Fields
from sixfold.convert.name_table import Stored, Table

FIELDS: Fields = {
    "vocabulary": "vocab_size",
    "pad_id": "pad_token_id",
    "max_positions": "max_position_embeddings",
    "d_model": "dim",
    "d_ff": "hidden_dim",
    "layers": "n_layers",
    "heads": "n_heads",
    "dropout": "dropout",
    "init_std": "initializer_range",
}
DEFAULTS: dict[str, Any] = {
    "pad_token_id": 0,
    "max_position_embeddings": 512,
    "dropout": 0.1,
    "initializer_range": 0.02,
    "activation": "gelu",
}

LAYER, OURS = "distilbert.transformer.layer.{}", "stack.layers.{}"
BODY: Table = {
    "stem.embedding": "distilbert.embeddings.word_embeddings",
    "stem.positions": "distilbert.embeddings.position_embeddings",
    "stem.norm": "distilbert.embeddings.LayerNorm",
    f"{OURS}.self_attention.project": tuple(Stored(f"{LAYER}.attention.{part}_lin") for part in "qkv"),
    f"{OURS}.self_attention.output": f"{LAYER}.attention.out_lin",
    f"{OURS}.self_attention_norm": f"{LAYER}.sa_layer_norm",
    f"{OURS}.feed_forward.inner": f"{LAYER}.ffn.lin1",
    f"{OURS}.feed_forward.outer": f"{LAYER}.ffn.lin2",
    f"{OURS}.feed_forward_norm": f"{LAYER}.output_layer_norm",
}

DISTILBERT_FAMILY = Family(
    "DistilBert",
    "distilbert",
    "distilbert",
    BODY,
    {
        "vectors": HeadNames("Model", {}),
        "token": HeadNames(
            "ForMaskedLM",
            {
                "head.transform.dense": "vocab_transform",
                "head.transform.norm": "vocab_layer_norm",
                "head": "vocab_projector",
            },
        ),
        "class": HeadNames(
            "ForSequenceClassification",
            {"pooler.dense": "pre_classifier", "head.classifier": "classifier"},
        ),
        "tag": HeadNames("ForTokenClassification", {"head.classifier": "classifier"}),
        "span": HeadNames("ForQuestionAnswering", {"head.bounds": "qa_outputs"}),
    },
    FIELDS,
    "activation",
    DEFAULTS,
    {"token_types": 0, "norm_epsilon": 1e-12, "pooler": "none"},
    {},
    "relu",
)
