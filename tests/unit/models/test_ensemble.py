"""Several models as one: their average, and nothing that one of them would not say alone."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from sixfold.decode.options import SearchOptions
from sixfold.decode.scoring import target_log_probabilities
from sixfold.decode.translate import Translator, load
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, count_parameters
from sixfold.models.ensemble import Ensemble, average, make_model
from sixfold.models.folder import DecodeConfig, ModelInfo, load_info, load_weights, save_model
from sixfold.text import Tokenizer
from sixfold.text.tokens import BACK_ID, EOS_ID

pytestmark = pytest.mark.usefixtures("seed")

TEXTS = ["old man", "the dog sees", "small house and tree", "blue", "", "woman paints a window"]
TOKENIZER = Tokenizer.learn([*TEXTS, "alter Mann", "der Hund sieht", "kleines Haus"], 300)
CONFIG = EncoderDecoderConfig(
    encoder_layers=1, decoder_layers=2, d_model=16, d_ff=24, heads=2, vocabulary=TOKENIZER.vocabulary, members=3
)
DECODE = DecodeConfig(beam=3, extra_tokens=6, read_back=0.4)


@pytest.fixture
def ensemble() -> Ensemble:
    """Return models with weights so large that they have opinions of their own."""
    model = make_model(CONFIG)
    assert isinstance(model, Ensemble)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn_like(weight)
    return model


def save(folder: Path, model: Ensemble) -> Path:
    """Write a model folder."""
    save_model(folder, ModelInfo(model=model.config, decode=DECODE), model.state_dict(), TOKENIZER, "models\n")
    return folder


def test_a_configuration_makes_so_many_different_models_of_one_shape() -> None:
    model = make_model(CONFIG)
    assert model.config == CONFIG
    assert len(model.members) == 3
    first, second, _ = (member.encoder.state_dict() for member in model.members)
    assert not torch.equal(first["layers.0.attention.project.weight"], second["layers.0.attention.project.weight"])
    alone = make_model(CONFIG.model_copy(update={"members": 1}))
    assert isinstance(alone, EncoderDecoder)
    assert alone.members == [alone]
    assert count_parameters(model) == 3 * count_parameters(alone)


def test_one_transformer_is_not_several() -> None:
    with pytest.raises(ConfigError, match="members=3"):
        EncoderDecoder(CONFIG)


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
    mean = torch.stack([member(source, target).softmax(dim=-1) for member in ensemble.eval().members]).mean(dim=0)
    torch.testing.assert_close(ensemble(source, target).exp(), mean)
    torch.testing.assert_close(ensemble(source, target).log_softmax(dim=-1).exp(), mean)


def test_a_folder_gives_back_every_member_bit_for_bit(ensemble: Ensemble, tmp_path: Path) -> None:
    info = load_info(save(tmp_path, ensemble))
    loaded = load_weights(tmp_path, info)
    assert info.model.members == 3
    assert loaded.config == ensemble.config
    for name, tensor in ensemble.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


@pytest.mark.parametrize("members", [1, 2, 4])
def test_a_folder_with_another_number_of_models_than_it_says_is_refused(
    ensemble: Ensemble, tmp_path: Path, members: int
) -> None:
    info = load_info(save(tmp_path, ensemble))
    other = info.model_copy(update={"model": info.model.model_copy(update={"members": members})})
    with pytest.raises(ModelFolderError, match="configuration"):
        load_weights(tmp_path, other)


def test_members_of_one_folder_translate_as_the_same_models_given_one_by_one(
    ensemble: Ensemble, tmp_path: Path
) -> None:
    one_by_one = Translator(ensemble.members[0], TOKENIZER, DECODE, partners=ensemble.members[1:])
    together = load(save(tmp_path, ensemble), "cpu")
    options = SearchOptions(n_best=3, read_back=0)
    assert together.search(TEXTS, options) == one_by_one.search(TEXTS, options)
    assert together.score(TEXTS, TEXTS[::-1]) == one_by_one.score(TEXTS, TEXTS[::-1])
    assert together.align(TEXTS[:2], TEXTS[2:4]) == one_by_one.align(TEXTS[:2], TEXTS[2:4])


def test_all_members_read_back_and_partners_do_not(ensemble: Ensemble) -> None:
    first, *others = ensemble.eval().members
    hypothesis, source = TOKENIZER.encode("der Hund"), TOKENIZER.encode("the dog sees")
    inputs = torch.tensor([[*hypothesis, EOS_ID]]), torch.tensor([[BACK_ID, *source]])
    expected = target_log_probabilities(ensemble(*inputs), torch.tensor([[*source, EOS_ID]])).sum().detach()
    [together] = Translator(ensemble, TOKENIZER, DECODE).scores_back([hypothesis], [source])
    assert together == pytest.approx(float(expected), abs=1e-4)
    [alone] = Translator(first, TOKENIZER, DECODE).scores_back([hypothesis], [source])
    assert alone != pytest.approx(together, abs=1e-2)
    assert Translator(first, TOKENIZER, DECODE, partners=others).scores_back([hypothesis], [source]) == [alone]


def test_each_text_is_translated_alone_as_in_a_batch_by_all_members(ensemble: Ensemble) -> None:
    translator = Translator(ensemble, TOKENIZER, DECODE)
    assert [translator.search([text])[0] for text in TEXTS] == translator.search(TEXTS)


def test_the_first_member_can_be_had_alone(ensemble: Ensemble) -> None:
    alone = Translator(ensemble, TOKENIZER, DECODE).alone()
    assert alone.models == [ensemble.members[0]]
    assert alone.search(TEXTS) == Translator(ensemble.members[0], TOKENIZER, DECODE).search(TEXTS)
