"""Tiny random models of transformers in folders, as publishers lay them out."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

from sixfold.data.corpora.phrasebook import sentences
from sixfold.text.tokenizer_json import WORDS

MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
VOCABULARY = 500
SMALL_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": VOCABULARY}
SMALL_LLAMA = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": VOCABULARY,
}  # fmt: skip
IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def byte_level_tokenizer(words: str = "smollm", size: int = VOCABULARY) -> bytes:
    """Return a tokenizer.json with the words of a published model, learned from our own grammar."""
    engine = tokenizers.Tokenizer(tokenizers.models.BPE())
    content = json.loads(engine.to_str()) | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": WORDS[words]}}
    engine = tokenizers.Tokenizer.from_str(json.dumps(content))
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=MARKS,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator([side for pair in islice(sentences(), 300) for side in pair], trainer)
    text: str = engine.to_str()
    return text.encode()


def randomised(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Return a model in evaluation mode whose weights, biases and norms all matter."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


def gpt2(**choices: Any) -> transformers.PreTrainedModel:
    """Return a small random GPT-2."""
    return randomised(transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL_GPT2, **IDS, **choices)))


def llama(**choices: Any) -> transformers.PreTrainedModel:
    """Return a small random Llama."""
    config = transformers.LlamaConfig(**{**SMALL_LLAMA, **IDS, **choices})
    return randomised(transformers.LlamaForCausalLM(config))


def save(model: transformers.PreTrainedModel, folder: Path, tokenizer: bytes, **options: Any) -> Path:
    """Write a model and its tokenizer as a publisher would; `options` go to `save_pretrained`."""
    model.save_pretrained(folder, **options)
    (folder / "tokenizer.json").write_bytes(tokenizer)
    return folder


def change(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file; None removes one."""
    content = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))
