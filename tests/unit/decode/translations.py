"""Sentences, models with large random weights, and what is looked at in translations."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from sixfold.decode.options import SearchOptions
from sixfold.decode.search import Hypothesis
from sixfold.decode.translate import Translation, Translator
from sixfold.decode.workers import SearchBatch
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.folder import ModelInfo, save_model
from sixfold.models.weights import weights_of
from sixfold.text import SpecialIds, Tokenizer

SPECIAL = SpecialIds()
VOCABULARY = ["man", "woman", "dog", "house", "window", "tree", "blue", "old", "small", "sees", "paints", "and"]
SENTENCES = [" ".join(random.Random(i).choices(VOCABULARY, k=1 + i % 9)) for i in range(60)]
VARIANTS: dict[str, dict[str, object]] = {
    "the paper's order": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 60},
    "restricted attention": {"attention_width": 3},
}


def random_model(tokenizer: Tokenizer, spread: float = 2.0, **choices: object) -> EncoderDecoder:
    """Return a model with weights so large that its outputs differ, and a certain wish to end.

    Two hypotheses of random weights may be as good as equal: in float64 rounding does not choose between them.
    """
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, **choices}
    model = EncoderDecoder(EncoderDecoderConfig.model_validate({"vocabulary": tokenizer.vocabulary, **shape}))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(spread)
        model.head.weight[SPECIAL.eos] *= 2
    return model.double().eval()


def one_answer_model(tokenizer: Tokenizer, answer: int) -> EncoderDecoder:
    """Return a model that can only say one token."""
    model = random_model(tokenizer)
    with torch.no_grad():
        norm = model.decoder.layers[-1].feed_forward_norm
        norm.weight.zero_()
        norm.bias.fill_(1.0)  # whatever comes in, this is the decoder's output
        model.head.weight.fill_(-1.0)
        model.head.weight[answer] = 1.0
    return model


def byte_token(tokenizer: Tokenizer, byte: int) -> int:
    """Return the token of a byte."""
    return tokenizer.pieces(range(tokenizer.vocabulary)).index(f"<0x{byte:02X}>")


def texts(found: list[list[Translation]]) -> list[list[str]]:
    """Return only the texts."""
    return [[each.text for each in translations] for translations in found]


def hypotheses(translator: Translator, ids: list[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
    """Search one batch of token ids."""
    return translator.decoder.decode_batch(SearchBatch(ids, [*range(len(ids))], options))


def scores(found: list[list[Translation]]) -> list[float]:
    """Return all scores in one row."""
    return [each.score for translations in found for each in translations]


def save(folder: Path, translator: Translator) -> None:
    """Write a model folder."""
    info = ModelInfo(model=translator.model.config, decode={"beam": 3})
    save_model(folder, info, [weights_of(translator.model)], translator.tokenizer, "a card")
