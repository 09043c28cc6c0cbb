"""A small random model that embeds, in a folder."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch
from tests.unit.text.published_words import word_piece_tokenizer

from sixfold.data.corpora.phrasebook import sentences
from sixfold.models.encoder_only import BERT, EncoderOnly, EncoderOnlyConfig
from sixfold.models.folder import ModelInfo, Processor, save_model
from sixfold.models.weights import weights_of
from sixfold.text import AnyTokenizer, SpecialIds
from sixfold.text.published_tokenizer import PublishedTokenizer

TEXTS = [english for english, _ in islice(sentences(), 40)]
SHAPE: dict[str, object] = {**BERT, "layers": 2, "d_model": 64, "d_ff": 96, "heads": 4, "max_positions": 40}
IDS = SpecialIds(pad=0, bos=2, eos=3, unk=1, mask=4)


def word_pieces() -> PublishedTokenizer:
    return PublishedTokenizer(word_piece_tokenizer(), IDS)


def save_embedder(folder: Path, tokenizer: AnyTokenizer, head: str = "projection", seed: int = 1) -> Path:
    """Write a model folder."""
    choices = {"head": head, "pooling": "mean", "pooler": "none", "init_std": 0.3}
    config = EncoderOnlyConfig.model_validate({**SHAPE, **choices, "vocabulary": tokenizer.vocabulary})
    torch.manual_seed(seed)
    side = Processor(tokenizer=tokenizer.file_name, special=tokenizer.special, max_tokens=24)
    info = ModelInfo(kind="encoder_only", task="embed", model=config, processors={"text": side})
    save_model(folder, info, [weights_of(EncoderOnly(config))], tokenizer, "# A card\n")
    return folder
