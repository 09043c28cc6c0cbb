"""A model folder that is opened translates as what was saved, with partners of its tokenizer only."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.unit.decode.translations import SENTENCES, SPECIAL, save
from torch import nn

from sixfold.decode import opening as module
from sixfold.decode.config import DecodeConfig
from sixfold.decode.search import Hypothesis
from sixfold.decode.translate import Translation, Translator, load
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.models.folder import ModelInfo
from sixfold.text import Tokenizer

pytestmark = pytest.mark.usefixtures("seed")


def test_a_loaded_model_translates_as_the_one_that_was_saved(trained: Translator, tmp_path: Path) -> None:
    save(tmp_path, trained)
    loaded = load(str(tmp_path), device="cpu")
    assert loaded.decode.beam == 3
    assert loaded.search(SENTENCES[:8]) == trained.search(SENTENCES[:8], beam=3)


def test_a_model_that_is_replaced_while_it_is_loaded_is_loaded_again(
    trained: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, trained)
    newer = Translator([EncoderDecoder(trained.model.config)], trained.tokenizer, DecodeConfig())
    waiting, load_members = [newer], module.load_members

    def replace_and_load(folder: Path, info: ModelInfo) -> list[nn.Module]:
        if waiting:
            save(folder, waiting.pop())
        return load_members(folder, info)

    monkeypatch.setattr(module, "load_members", replace_and_load)
    loaded = load(tmp_path, "cpu").model
    assert torch.equal(loaded.head.weight, newer.model.head.weight)


def test_a_damaged_model_is_refused_and_not_tried_for_ever(trained: Translator, tmp_path: Path) -> None:
    save(tmp_path, trained)
    (tmp_path / "weights.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors"):
        load(tmp_path, "cpu")


def test_a_hypothesis_becomes_a_translation_with_all_its_numbers(trained: Translator) -> None:
    tokens = (*trained.tokenizer.encode("Hund"), SPECIAL.eos)
    found = trained.finish(Hypothesis(tokens, -2.0, -1.5, is_cut=True), source_is_cut=True)
    assert found == Translation("Hund", -1.5, -2.0, len(tokens), is_cut=True, source_is_cut=True)


def test_partners_of_another_tokenizer_are_refused(brief: Translator, tmp_path: Path) -> None:
    save(tmp_path / "one", brief)
    save(tmp_path / "two", brief)
    both = load(tmp_path / "one", "cpu", partners=[tmp_path / "two"])
    assert both.translate(SENTENCES[:5]) == load(tmp_path / "one", "cpu").translate(SENTENCES[:5])
    stranger = Tokenizer.learn(["quite other words than those"], 290)
    model = EncoderDecoder(brief.model.config.model_copy(update={"vocabulary": stranger.vocabulary}))
    save(tmp_path / "stranger", Translator([model], stranger, DecodeConfig()))
    with pytest.raises(ConfigError, match="another tokenizer"):
        load(tmp_path / "one", "cpu", partners=[tmp_path / "stranger"])
