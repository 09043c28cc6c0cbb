"""A small model that has learned a little: its translations are diverse, mostly right, and end by themselves."""

from __future__ import annotations

import random

import pytest
import torch
from torch.nn.functional import cross_entropy

from sixfold.decode.config import DecodeConfig
from sixfold.decode.scoring import forced_batch
from sixfold.decode.translate import Translator
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.text import Tokenizer

WORDS = {
    "man": "Mann", "woman": "Frau", "dog": "Hund", "house": "Haus", "window": "Fenster", "tree": "Baum",
    "blue": "blau", "old": "alt", "small": "klein", "sees": "sieht", "paints": "malt", "and": "und",
}  # fmt: skip


def make_sentence(draw: random.Random) -> str:
    """Return some words."""
    return " ".join(draw.choices(list(WORDS), k=draw.randint(1, 7)))


def translate(sentence: str) -> str:
    """Translate word by word."""
    return " ".join(WORDS[word] for word in sentence.split())


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    draw = random.Random(1)
    sources = [make_sentence(draw) for _ in range(200)]
    return Tokenizer.learn([*sources, *map(translate, sources)], 320)


@pytest.fixture(scope="session")
def trained(tokenizer: Tokenizer) -> Translator:
    """Return a model after some hundred steps of training."""
    draw, num_threads = random.Random(2), torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 32, "d_ff": 64, "heads": 2, "dropout": 0.0}
        model = EncoderDecoder(EncoderDecoderConfig(vocabulary=tokenizer.vocabulary, **shape))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(120):
            sources = [make_sentence(draw) for _ in range(32)]
            train_step(model, optimizer, tokenizer, sources)
    torch.set_num_threads(num_threads)
    return Translator([model], tokenizer, DecodeConfig())


@pytest.fixture
def brief(trained: Translator) -> Translator:
    """Return the trained model with little patience for outputs that do not end."""
    return Translator([trained.model], trained.tokenizer, DecodeConfig(extra_tokens=8))


def train_step(
    model: EncoderDecoder, optimizer: torch.optim.Optimizer, tokenizer: Tokenizer, sources: list[str]
) -> None:
    """Learn from a few sentences."""
    source_ids, target_ids = tokenizer.encode_batch(sources), tokenizer.encode_batch([*map(translate, sources)])
    source, target_in, target_out = forced_batch(model, tokenizer.special, source_ids, target_ids)
    logits = model(source, target_in)
    cross_entropy(logits.flatten(0, 1), target_out.flatten(), ignore_index=tokenizer.special.pad).backward()
    optimizer.step()
    optimizer.zero_grad()
