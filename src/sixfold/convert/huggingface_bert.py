"""BERT and RoBERTa in Hugging Face's names: RoBERTa's positions start at 2; MiniLM is a BERT."""

from __future__ import annotations

from typing import Any

from sixfold.convert.encoder_formats import Family, HeadNames
from sixfold.convert.foreign_config import Fields
from sixfold.convert.name_table import Stored, Table

FIELDS: Fields = {
    "vocabulary": "vocab_size",
    "pad_id": "pad_token_id",
    "max_positions": "max_position_embeddings",
    "token_types": "type_vocab_size",
    "d_model": "hidden_size",
    "d_ff": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "init_std": "initializer_range",
}
DEFAULTS: dict[str, Any] = {
    "pad_token_id": 0,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "hidden_act": "gelu",
}
REFUSED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}


def body(prefix: str) -> Table:
    """Return the names of everything before the head."""
    layer, ours = f"{prefix}.encoder.layer.{{}}", "stack.layers.{}"
    return {
        "stem.embedding": f"{prefix}.embeddings.word_embeddings",
        "stem.positions": f"{prefix}.embeddings.position_embeddings",
        "stem.token_types": f"{prefix}.embeddings.token_type_embeddings",
        "stem.norm": f"{prefix}.embeddings.LayerNorm",
        f"{ours}.self_attention.project": tuple(
            Stored(f"{layer}.attention.self.{part}") for part in ("query", "key", "value")
        ),
        f"{ours}.self_attention.output": f"{layer}.attention.output.dense",
        f"{ours}.self_attention_norm": f"{layer}.attention.output.LayerNorm",
        f"{ours}.feed_forward.inner": f"{layer}.intermediate.dense",
        f"{ours}.feed_forward.outer": f"{layer}.output.dense",
        f"{ours}.feed_forward_norm": f"{layer}.output.LayerNorm",
        "pooler.dense": f"{prefix}.pooler.dense",
    }


BERT_FAMILY = Family(
    "Bert",
    "bert",
    "bert",
    body("bert"),
    {
        "vectors": HeadNames("Model", {}),
        "token": HeadNames(
            "ForMaskedLM",
            {
                "head.transform.dense": "cls.predictions.transform.dense",
                "head.transform.norm": "cls.predictions.transform.LayerNorm",
                "head": "cls.predictions",
            },
        ),
        "class": HeadNames("ForSequenceClassification", {"head.classifier": "classifier"}),
        "tag": HeadNames("ForTokenClassification", {"head.classifier": "classifier"}),
        "span": HeadNames("ForQuestionAnswering", {"head.bounds": "qa_outputs"}),
    },
    FIELDS,
    "hidden_act",
    DEFAULTS,
    {"first_position": 0},
    REFUSED,
    "tanh",
)

ROBERTA_FAMILY = Family(
    "Roberta",
    "roberta",
    "roberta",
    body("roberta"),
    {
        "vectors": HeadNames("Model", {}),
        "token": HeadNames(
            "ForMaskedLM",
            {
                "head.transform.dense": "lm_head.dense",
                "head.transform.norm": "lm_head.layer_norm",
                "head": "lm_head",
            },
        ),
        "class": HeadNames(
            "ForSequenceClassification",
            {"pooler.dense": "classifier.dense", "head.classifier": "classifier.out_proj"},
        ),
        "tag": HeadNames("ForTokenClassification", {"head.classifier": "classifier"}),
        "span": HeadNames("ForQuestionAnswering", {"head.bounds": "qa_outputs"}),
    },
    FIELDS,
    "hidden_act",
    {**DEFAULTS, "pad_token_id": 1, "layer_norm_eps": 1e-5},
    {"first_position": 2},  # the id of padding plus 1
    {**REFUSED, "pad_token_id": 1},
    "tanh",
)
