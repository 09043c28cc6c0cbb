"""Encoder-only models: every head, what padding and segments do, and gradients."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.encoder_only import BERT, PRESETS, EncoderOnly, EncoderOnlyConfig
from sixfold.models.folder import (
    Labels,
    ModelInfo,
    Processor,
    load_any_tokenizer,
    load_info,
    load_members,
    save_model,
)
from sixfold.models.weights import weights_of
from sixfold.text import Tokenizer
from sixfold.text.special import MASK

pytestmark = pytest.mark.usefixtures("seed")

HEADS: dict[str, dict[str, object]] = {
    "vectors": {"pooler": "none"},
    "class": {"labels": 3},
    "class of the mean": {"head": "class", "labels": 3, "pooling": "mean", "pooler": "relu"},
    "tag": {"labels": 4},
    "span": {},
    "token": {},
    "projection": {"pooling": "mean", "pooler": "none"},
}
PAD = 0


def make_model(head: str = "vectors", **choices: object) -> EncoderOnly:
    shape = {**BERT, "layers": 2, "d_model": 24, "d_ff": 40, "heads": 4, "max_positions": 24, "vocabulary": 31}
    choices = {**HEADS.get(head, {}), "dropout": 0.0, "init_std": 0.3, "norm_epsilon": 1e-5, **choices}
    model = EncoderOnly(EncoderOnlyConfig.model_validate({"head": head.split()[0], **shape, **choices}))
    with torch.no_grad():
        for parameter in model.parameters():  # no zero or one hides a mistake
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.double().eval()


@pytest.fixture(params=HEADS, ids=str)
def model(request: pytest.FixtureRequest) -> EncoderOnly:
    return make_model(request.param)


def tokens(*shape: int) -> Tensor:
    return torch.randint(5, 31, shape)


def padded(given: Tensor, length: int) -> Tensor:
    return torch.cat([given, torch.full((len(given), length), PAD)], dim=1)


def test_padding_changes_nothing(model: EncoderOnly) -> None:
    given = tokens(2, 6)
    answer, with_padding = model(given), model(padded(given, 5))
    if model.config.head in ("vectors", "tag", "span", "token"):
        with_padding = with_padding[:, :6]
    torch.testing.assert_close(with_padding, answer, rtol=0, atol=1e-12)


def test_no_answer_starts_or_ends_at_padding() -> None:
    logits = make_model("span")(padded(tokens(2, 6), 3))
    assert torch.equal(logits.isinf(), (torch.arange(9) >= 6)[None, :, None].expand(2, 9, 2))


def test_a_token_sees_the_whole_text_but_not_the_padding() -> None:
    model, given, kept = make_model(), padded(tokens(1, 6), 3), list[Tensor]()
    model.stem.register_forward_hook(lambda _, __, x: kept.append(x.detach().requires_grad_()) or kept[-1])
    answer = model(given)
    for position in range(6):
        [gradient] = torch.autograd.grad(answer[:, position].sum(), kept, retain_graph=True)
        assert (gradient[:, :6] != 0).any(dim=-1).all()
        assert (gradient[:, 6:] == 0).all()


def test_gradients_are_those_of_finite_differences(model: EncoderOnly) -> None:
    given, names = padded(tokens(2, 5), 2), [name for name, _ in model.named_parameters()]

    def outputs(*weights: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (given,))
        return found[..., :3] if model.config.head not in ("vectors", "span") else found[:, :5, :3]

    weights = tuple(parameter.detach().clone().requires_grad_() for parameter in model.parameters())
    assert torch.autograd.gradcheck(outputs, weights, fast_mode=True)


def test_segments_are_told_apart_and_the_first_is_meant_where_none_is_given() -> None:
    model, given = make_model(), tokens(2, 7)
    second_half = (torch.arange(7) > 3).long().expand(2, 7)
    assert torch.equal(model(given), model(given, torch.zeros_like(given)))
    assert not torch.allclose(model(given), model(given, second_half))


def test_a_model_of_the_mean_ignores_the_order_only_without_positions() -> None:
    model, given = make_model("projection"), tokens(1, 6)
    assert not torch.allclose(model(given), model(given.flip(1)))
    torch.nn.init.zeros_(model.stem.positions.table)
    torch.testing.assert_close(model(given), model(given.flip(1)), rtol=0, atol=1e-12)


def test_a_projection_has_length_one() -> None:
    lengths = make_model("projection")(padded(tokens(3, 6), 2)).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones(3).double(), rtol=0, atol=1e-12)


def test_a_masked_language_model_reads_and_writes_with_one_matrix() -> None:
    model = make_model("token")
    assert model.head.weight is model.stem.embedding.weight
    assert "head.weight" not in dict(model.named_parameters())


def test_watching_shows_every_layer_and_changes_nothing(model: EncoderOnly) -> None:
    given, seen = padded(tokens(2, 7), 2), list[Tensor]()
    torch.testing.assert_close(model.hidden(given, watch=seen.append), model.hidden(given), rtol=0, atol=1e-12)
    assert [each.shape for each in seen] == [(2, 4, 9, 9)] * 2
    assert all((each[..., 7:] == 0).all() for each in seen)


def test_a_head_without_the_labels_it_needs_is_refused() -> None:
    for head, labels in (("class", 0), ("tag", 0), ("token", 2)):
        with pytest.raises(ConfigError, match=f"labels={labels}"):
            make_model(head, labels=labels)


def test_every_preset_of_ours_is_larger_than_the_one_before() -> None:
    def count(name: str) -> int:
        with torch.device("meta"):
            model = EncoderOnly(EncoderOnlyConfig(**PRESETS[name].model_dump(), vocabulary=30522))
        return sum(parameter.numel() for parameter in model.parameters())

    assert all(count(smaller) < count(larger) for smaller, larger in pairwise(PRESETS))


# The model folder


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.learn(["a small text", "another text"], 300, special_tokens=[MASK])


def saved(folder: Path, model: EncoderOnly, tokenizer: Tokenizer) -> Path:
    labels = Labels(names=("bad", "good", "mixed"), temperature=1.5) if model.config.labels else None
    side = Processor(special=tokenizer.special, max_tokens=20)
    info = ModelInfo(
        kind="encoder_only", task="classify", model=model.config, processors={"text": side}, labels=labels
    )
    save_model(folder, info, [weights_of(model)], tokenizer, "# A card\n")
    return folder


@pytest.mark.parametrize("head", ["class", "token", "projection"])
def test_a_folder_keeps_the_model_its_labels_and_the_token_for_a_mask(
    tmp_path: Path, tokenizer: Tokenizer, head: str
) -> None:
    model = make_model(head, vocabulary=tokenizer.vocabulary).float()
    folder = saved(tmp_path / "m", model, tokenizer)
    info = load_info(folder)
    [loaded] = load_members(folder, info)
    given = tokens(2, 7)
    assert torch.equal(loaded(given), model(given))
    assert loaded.config == model.config
    assert (info.labels is not None) == (head == "class")
    mask = load_any_tokenizer(folder, info).special.mask
    assert mask is not None
    assert tokenizer.pieces([mask]) == [MASK]
    assert mask not in tokenizer.encode(f"a {MASK} text")  # what looks like it is text
    assert info.processors["text"].max_tokens == 20


@pytest.mark.parametrize("names", [["bad", "good"], [], None])
def test_a_folder_whose_labels_are_not_those_of_the_model_is_refused(
    tmp_path: Path, tokenizer: Tokenizer, names: list[str] | None
) -> None:
    folder = saved(tmp_path / "m", make_model("class", vocabulary=tokenizer.vocabulary), tokenizer)
    content = json.loads((folder / "sixfold.json").read_bytes())
    del content["files"]["sixfold.json"]
    content["labels"] = None if names is None else {"names": names}
    (folder / "sixfold.json").write_text(json.dumps(content))
    with pytest.raises(ModelFolderError, match="labels"):
        load_info(folder)
