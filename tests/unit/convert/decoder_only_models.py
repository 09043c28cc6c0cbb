"""Small random decoder-only models of ours in folders."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch

from sixfold.data.corpora.phrasebook import sentences
from sixfold.models.decoder_only import GPT, LLAMA, DecoderOnly, DecoderOnlyConfig
from sixfold.models.folder import ModelInfo, Processor, save_model
from sixfold.models.weights import weights_of
from sixfold.text import Tokenizer
from sixfold.text.chat import ROLE_TOKENS, SIXFOLD_TEMPLATE

SHAPE: dict[str, object] = {
    "layers": 2,
    "d_model": 32,
    "d_ff": 64,
    "heads": 4,
    "max_positions": 96,
    "init_std": 0.2,
}
KINDS: dict[str, dict[str, object]] = {
    "GPT-2": {**GPT},
    "GPT-2, its own head": {**GPT, "tied": False},
    "Llama": {**LLAMA, "key_value_heads": 2},
    "Llama, biases and its own head": {
        **LLAMA, "tied": False, "attention_bias": True, "feed_forward_bias": True, "rotary_base": 500.0,
    },
    "Llama, wide heads": {**LLAMA, "d_k": 16, "d_v": 16, "norm_epsilon": 1e-3},
}  # fmt: skip


def learn_tokenizer() -> Tokenizer:
    """Return a tokenizer of ours with the marks of conversations."""
    texts = [side for pair in islice(sentences(), 300) for side in pair]
    return Tokenizer.learn(texts, 400, special_tokens=ROLE_TOKENS)


def make_model(tokenizer: Tokenizer, **choices: object) -> DecoderOnly:
    """Return a model whose weights, biases and norms all matter."""
    config = DecoderOnlyConfig.model_validate({**SHAPE, "vocabulary": tokenizer.vocabulary, **choices})
    model = DecoderOnly(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1 or "norm" in name:
                weight += 0.2 * torch.randn_like(weight)
    return model


def save(model: DecoderOnly, tokenizer: Tokenizer, folder: Path) -> Path:
    """Write a model folder as training does."""
    special = tokenizer.special
    side = Processor(special=special, decoder_start=special.bos, chat=SIXFOLD_TEMPLATE)
    info = ModelInfo(kind="decoder_only", task="generate", model=model.config, processors={"text": side})
    save_model(folder, info, [weights_of(model)], tokenizer, "a model\n")
    return folder
