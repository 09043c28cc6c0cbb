"""Small random encoders as their publishers lay them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers
import transformers
from tests.unit.convert.published_models import byte_level_tokenizer, randomised
from tests.unit.text.published_words import word_piece_tokenizer

VOCABULARY, LABELS = 500, ("bad", "good", "mixed")
SHAPES: dict[str, dict[str, Any]] = {
    "bert": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4},
    "distilbert": {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
}
ROBERTA_MARKS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
NAMES = ["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"]
MEAN = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False, "word_embedding_dimension": 32}


def encoder(name: str, **choices: Any) -> transformers.PreTrainedModel:
    """Return a small random model of a class of transformers."""
    model_type = next(each for each in ("distilbert", "roberta", "bert") if name.lower().startswith(each))
    labels = {"id2label": dict(enumerate(LABELS if "Classification" in name else LABELS[:2]))}
    shape = {**SHAPES.get(model_type, SHAPES["bert"]), "max_position_embeddings": 64, "vocab_size": VOCABULARY}
    config = transformers.CONFIG_MAPPING[model_type](**shape, **labels, **choices)
    return randomised(getattr(transformers, name)(config))


def roberta_tokenizer() -> bytes:
    """Return a tokenizer.json with GPT-2's words and RoBERTa's special tokens."""
    content = json.loads(byte_level_tokenizer("gpt-2", VOCABULARY - 2))
    old = [token["content"] for token in content["added_tokens"]]
    pieces = [piece for piece in content["model"]["vocab"] if piece not in old]
    content["model"]["vocab"] = {piece: number for number, piece in enumerate([*ROBERTA_MARKS, *pieces])}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content["added_tokens"] = [
        {"id": number, "content": name, **flags, "special": True} for number, name in enumerate(ROBERTA_MARKS)
    ]
    content["post_processor"] = {
        "type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
        "trim_offsets": True, "add_prefix_space": False,
    }  # fmt: skip
    return tokenizers.Tokenizer.from_str(json.dumps(content)).to_str().encode()


def save(model: transformers.PreTrainedModel, folder: Path) -> Path:
    """Write a model with the tokenizer of its family as a publisher would."""
    model.save_pretrained(folder)
    is_roberta = model.config.model_type == "roberta"
    (folder / "tokenizer.json").write_bytes(roberta_tokenizer() if is_roberta else word_piece_tokenizer())
    names = (
        ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
        if is_roberta
        else ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    )
    said = {**dict(zip(NAMES, names, strict=True)), "model_max_length": 62 if is_roberta else 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return folder


def as_sentences(folder: Path, pooling: dict[str, Any], *kinds: str) -> Path:
    """Add what sentence-transformers writes beside a model."""
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(zip(kinds, ("", "1_Pooling", "2_Other"), strict=False))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 40, "do_lower_case": False}))
    return folder
