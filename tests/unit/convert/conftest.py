"""Small models of every exportable shape, with random weights everywhere."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import torch

from sixfold.data.corpora.phrasebook import sentences
from sixfold.decode.config import DecodeConfig
from sixfold.decode.translate import Translator
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.folder import ModelInfo, save_model
from sixfold.models.weights import weights_of
from sixfold.text import Tokenizer

SMALL = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 32, "d_ff": 48, "heads": 4, "dropout": 0.1}
BYTES = slice(4, 4 + 256)  # the tokens that stand for one byte each

Make = Callable[..., Translator]
Save = Callable[[Translator], Path]


@pytest.fixture(scope="module", autouse=True)
def quick(one_core: None) -> None:
    """Use one core: the models are tiny."""


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    pairs = list(islice(sentences(), 300))
    return Tokenizer.learn([side for pair in pairs for side in pair], 400)


@pytest.fixture
def make(tokenizer: Tokenizer, seed: int) -> Make:  # noqa: ARG001
    """Return a function that makes a model which differs from the small one in some choices."""

    def make_translator(**choices: object) -> Translator:
        config = EncoderDecoderConfig.model_validate({**SMALL, "vocabulary": tokenizer.vocabulary, **choices})
        model = EncoderDecoder(config)
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.2 * torch.randn_like(weight)
            model.head.weight[BYTES] *= 0.01  # so that it writes no bytes, and so nothing incomparable
        return Translator([model], tokenizer, DecodeConfig(extra_tokens=10))

    return make_translator


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Return a function that saves a model and returns its folder."""

    def save_translator(translator: Translator) -> Path:
        folder = tmp_path / "model"
        info = ModelInfo(model=translator.model.config, decode=translator.decode.model_dump())
        save_model(folder, info, [weights_of(translator.model)], translator.tokenizer, "a model\n")
        return folder

    return save_translator
