"""DistilBERT in Hugging Face's names: BERT without token types and without a pooler."""

from __future__ import annotations

from typing import Any

from sixfold.convert.encoder_formats import Family, HeadNames, fused, linear
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
    "stem.embedding.weight": (Stored("distilbert.embeddings.word_embeddings.weight"),),
    "stem.positions.table": (Stored("distilbert.embeddings.position_embeddings.weight"),),
    **linear("stem.norm", "distilbert.embeddings.LayerNorm"),
    **fused(f"{OURS}.self_attention.project", *(f"{LAYER}.attention.{part}_lin" for part in "qkv")),
    **linear(f"{OURS}.self_attention.output", f"{LAYER}.attention.out_lin"),
    **linear(f"{OURS}.self_attention_norm", f"{LAYER}.sa_layer_norm"),
    **linear(f"{OURS}.feed_forward.inner", f"{LAYER}.ffn.lin1"),
    **linear(f"{OURS}.feed_forward.outer", f"{LAYER}.ffn.lin2"),
    **linear(f"{OURS}.feed_forward_norm", f"{LAYER}.output_layer_norm"),
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
                **linear("head.transform.dense", "vocab_transform"),
                **linear("head.transform.norm", "vocab_layer_norm"),
                "head.bias": (Stored("vocab_projector.bias"),),
            },
        ),
        "class": HeadNames(
            "ForSequenceClassification",
            {**linear("pooler.dense", "pre_classifier"), **linear("head.classifier", "classifier")},
        ),
        "tag": HeadNames("ForTokenClassification", linear("head.classifier", "classifier")),
        "span": HeadNames("ForQuestionAnswering", linear("head.bounds", "qa_outputs")),
    },
    FIELDS,
    "activation",
    DEFAULTS,
    {"token_types": 0, "norm_epsilon": 1e-12, "pooler": "none"},
    {},
    "relu",
)
