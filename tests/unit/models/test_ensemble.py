"""Several models as one: their average, and nothing that one of them would not say alone."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from sixfold.decode.config import DecodeConfig
from sixfold.decode.options import SearchOptions
from sixfold.decode.translate import Translator, load
from sixfold.errors import ModelFolderError
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, count_parameters
from sixfold.models.ensemble import Ensemble, average, make_ensemble, members_of
from sixfold.models.folder import ModelInfo, load_info, load_members, save_model, weight_files
from sixfold.models.weights import weights_of
from sixfold.text import Tokenizer

pytestmark = pytest.mark.usefixtures("seed")

TEXTS = ["old man", "the dog sees", "small house and tree", "blue", "", "woman paints a window"]
TOKENIZER = Tokenizer.learn([*TEXTS, "alter Mann", "der Hund sieht", "kleines Haus"], 300)
CONFIG = EncoderDecoderConfig(
    encoder_layers=1, decoder_layers=2, d_model=16, d_ff=24, heads=2, vocabulary=TOKENIZER.vocabulary
)
DECODE = DecodeConfig(beam=3, extra_tokens=6)


def make_model() -> EncoderDecoder:
    return EncoderDecoder(CONFIG)


@pytest.fixture
def ensemble() -> Ensemble:
    """Return models with weights so large that they have opinions of their own."""
    model = make_ensemble(make_model, 3)
    assert isinstance(model, Ensemble)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn_like(weight)
    return model


def save(folder: Path, ensemble: Ensemble) -> Path:
    """Write a model folder."""
    info = ModelInfo(model=CONFIG, decode=DECODE.model_dump())
    save_model(folder, info, [weights_of(model) for model in ensemble.models], TOKENIZER, "models\n")
    return folder


def test_an_ensemble_is_so_many_different_models_of_one_shape() -> None:
    model = make_ensemble(make_model, 3)
    assert isinstance(model, Ensemble)
    assert members_of(model) == list(model.models)
    assert len(model.models) == 3
    first, second, _ = (member.encoder.layers[0].self_attention.project.weight for member in model.models)
    assert not torch.equal(first, second)
    alone = make_ensemble(make_model, 1)
    assert isinstance(alone, EncoderDecoder)
    assert members_of(alone) == [alone]
    assert count_parameters(model) == 3 * count_parameters(alone)


def test_an_average_has_the_same_bits_wherever_it_stands() -> None:
    rows = torch.randn(2, 999, 13).mul(5).log_softmax(dim=-1)  # 13: as no vector is long
    together = average(rows, 2)
    alone = [average(rows[:, [row]], 2) for row in range(999)]
    assert torch.equal(together, torch.cat(alone))
    torch.testing.assert_close(together, torch.logaddexp(*rows) - math.log(2))
    impossible, half = torch.tensor([-math.inf, -math.inf, 0.0]), -math.log(2)
    assert average([impossible, impossible.flip(0)], 2).tolist() == pytest.approx([half, -math.inf, half])


def test_the_probabilities_are_averaged(ensemble: Ensemble) -> None:
    source, target = torch.randint(4, CONFIG.vocabulary, (2, 2, 5))
    mean = torch.stack([member(source, target).softmax(dim=-1) for member in ensemble.eval().models]).mean(dim=0)
    torch.testing.assert_close(ensemble(source, target).exp(), mean)
    torch.testing.assert_close(ensemble(source, target).log_softmax(dim=-1).exp(), mean)


def test_a_folder_gives_back_every_member_bit_for_bit(ensemble: Ensemble, tmp_path: Path) -> None:
    loaded = load_members(tmp_path, load_info(save(tmp_path, ensemble)))
    assert len(loaded) == 3
    for found, saved in zip(loaded, ensemble.models, strict=True):
        assert isinstance(found, EncoderDecoder)
        assert found.config == CONFIG
        weights = weights_of(saved)
        assert weights_of(found).keys() == weights.keys()
        assert all(torch.equal(tensor, weights[name]) for name, tensor in weights_of(found).items())


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_folder_with_another_number_of_models_than_it_says_is_refused(
    ensemble: Ensemble, tmp_path: Path, count: int
) -> None:
    path = save(tmp_path, ensemble) / "sixfold.json"
    content = json.loads(path.read_bytes())
    del content["files"]["sixfold.json"]
    content["weights"] = weight_files(count)
    path.write_text(json.dumps(content))
    with pytest.raises(ModelFolderError, match=r"weights-[234]\.safetensors"):
        load(tmp_path, "cpu")


def test_members_of_one_folder_translate_as_the_same_models_given_one_by_one(
    ensemble: Ensemble, tmp_path: Path
) -> None:
    first, *others = ensemble.models
    one_by_one = Translator([first, *others], TOKENIZER, DECODE)
    together = load(save(tmp_path, ensemble), "cpu")
    options = SearchOptions(n_best=3)
    assert together.search(TEXTS, options) == one_by_one.search(TEXTS, options)
    assert together.score(TEXTS, TEXTS[::-1]) == one_by_one.score(TEXTS, TEXTS[::-1])
    assert together.align(TEXTS[:2], TEXTS[2:4]) == one_by_one.align(TEXTS[:2], TEXTS[2:4])


def test_each_text_is_translated_alone_as_in_a_batch_by_all_members(ensemble: Ensemble) -> None:
    translator = Translator(list(ensemble.models), TOKENIZER, DECODE)
    assert [translator.search([text])[0] for text in TEXTS] == translator.search(TEXTS)


def test_the_first_member_can_be_had_alone(ensemble: Ensemble) -> None:
    alone = Translator(list(ensemble.models), TOKENIZER, DECODE).alone()
    assert alone.models == [ensemble.models[0]]
    assert alone.search(TEXTS) == Translator([ensemble.models[0]], TOKENIZER, DECODE).search(TEXTS)
