"""Hugging Face folders of encoders come in: random models of transformers give the same answers here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from sixfold.convert.import_model import Imported, import_model
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.encoder_only import EncoderOnly
from sixfold.models.folder import load_any_tokenizer, load_info, load_members

pytest.importorskip("transformers")

from tests.unit.convert.published_encoders import LABELS, MEAN, as_sentences, encoder, save
from tests.unit.convert.published_models import change

from sixfold.convert.huggingface_encoder_only import FORMATS

pytestmark = pytest.mark.usefixtures("seed")


def imported(folder: Path) -> Imported:
    return import_model(str(folder), folder.parent / "m")


def opened(folder: Path) -> EncoderOnly:
    [model] = load_members(folder, load_info(folder))
    assert isinstance(model, EncoderOnly)
    return model


@pytest.mark.parametrize("name", FORMATS)
def test_every_class_comes_in_and_is_compared(name: str, tmp_path: Path) -> None:
    done = imported(save(encoder(name), tmp_path / "hf"))
    tokens, answers = done.comparisons
    assert tokens.what == "token ids"
    assert answers.difference <= answers.allowed
    special = done.info.processors["text"].special
    assert special.mask is not None
    assert done.info.task in ("embed", "classify", "tag", "answer", "fill")
    if "Classification" in name:
        assert done.info.labels is not None
        assert done.info.labels.names == LABELS


def test_a_published_pooler_is_kept_although_vectors_do_not_need_it(tmp_path: Path) -> None:
    theirs = encoder("BertModel")
    imported(save(theirs, tmp_path / "hf"))
    dense = opened(tmp_path / "m").pooler.dense
    assert dense is not None
    assert torch.equal(dense.weight, theirs.pooler.dense.weight)


def test_a_masked_language_model_of_berts_own_pretraining_keeps_its_pooler(tmp_path: Path) -> None:
    theirs = encoder("BertForPreTraining")
    imported(save(theirs, tmp_path / "hf"))
    model = opened(tmp_path / "m")
    assert model.config.head == "token"
    assert model.pooler.dense is not None
    assert torch.equal(model.pooler.dense.weight, theirs.bert.pooler.dense.weight)


@pytest.mark.parametrize(("mode", "pooling"), [("mean_tokens", "mean"), ("cls_token", "first")])
def test_sentence_transformers_says_how_a_text_becomes_a_vector(tmp_path: Path, mode: str, pooling: str) -> None:
    theirs = encoder("BertModel")
    said = {**MEAN, "pooling_mode_mean_tokens": False, f"pooling_mode_{mode}": True}
    folder = as_sentences(save(theirs, tmp_path / "hf"), said, "Transformer", "Pooling", "Normalize")
    info = imported(folder).info
    assert info.processors["text"].max_tokens == 40
    tokens = torch.randint(5, 400, (2, 9))
    with torch.inference_mode():
        hidden = theirs(tokens).last_hidden_state
        pooled = hidden.mean(dim=1) if pooling == "mean" else hidden[:, 0]
        torch.testing.assert_close(opened(tmp_path / "m")(tokens), F.normalize(pooled, dim=-1), rtol=0, atol=1e-5)


def test_vectors_that_are_not_of_length_one_there_are_said_to_become_so(tmp_path: Path) -> None:
    folder = as_sentences(save(encoder("BertModel"), tmp_path / "hf"), MEAN, "Transformer", "Pooling")
    origin = imported(folder).info.training["imported"]
    assert isinstance(origin, dict)
    assert "which the folder does not state" in str(origin["vectors"])


@pytest.mark.parametrize(
    ("pooling", "kinds", "reason"),
    [
        (MEAN, ("Transformer", "Pooling", "Dense"), "'Dense'"),
        (MEAN, ("WordEmbeddings", "Pooling"), "'WordEmbeddings'"),
        ({"pooling_mode_max_tokens": True}, ("Transformer", "Pooling"), "pooling_mode_max_tokens"),
        ({**MEAN, "pooling_mode_cls_token": True}, ("Transformer", "Pooling"), "pools vectors by"),
    ],
)
def test_other_ways_to_a_vector_are_refused(
    tmp_path: Path, pooling: dict[str, Any], kinds: tuple[str, ...], reason: str
) -> None:
    folder = as_sentences(save(encoder("BertModel"), tmp_path / "hf"), pooling, *kinds)
    with pytest.raises(ModelFolderError, match=reason):
        imported(folder)
    assert not (tmp_path / "m").exists()


def test_modules_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder = as_sentences(save(encoder("BertModel"), tmp_path / "hf"), MEAN, "Transformer", "Pooling")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = "../elsewhere"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelFolderError, match="is not a subfolder"):
        imported(folder)


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_vocabulary_alone_is_enough(tmp_path: Path, lowercase: bool) -> None:
    folder = save(encoder("BertModel"), tmp_path / "hf")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)) + "\n")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase}))
    assert imported(folder).comparisons
    tokenizer = load_any_tokenizer(tmp_path / "m", load_info(tmp_path / "m"))
    assert (tokenizer.encode("The DOG") == tokenizer.encode("the dog")) == lowercase


def test_files_with_the_older_names_of_norms_and_with_counted_positions_are_read(tmp_path: Path) -> None:
    theirs = encoder("BertForMaskedLM")
    folder = save(theirs, tmp_path / "hf")
    imported(folder)
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): each
        for name, each in load_file(folder / "model.safetensors").items()
    }
    tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    import_model(str(folder), tmp_path / "old")
    one, other = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("m", "old"))
    assert one == other


@pytest.mark.parametrize(
    ("fields", "choice"),
    [
        ({"problem_type": "multi_label_classification"}, "several"),
        ({"problem_type": "regression"}, "number"),
        ({}, "one"),
    ],
)
def test_how_many_labels_are_chosen_is_kept(tmp_path: Path, fields: dict[str, Any], choice: str) -> None:
    folder = save(encoder("BertForSequenceClassification"), tmp_path / "hf")
    change(folder / "config.json", **fields)
    labels = imported(folder).info.labels
    assert labels is not None
    assert labels.choice == choice
    assert len(labels.thresholds) == (3 if choice == "several" else 0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"architectures": ["DebertaModel"]}, "DebertaModel"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"is_decoder": True}, "is_decoder"),
        ({"hidden_act": "mish"}, "hidden_act='mish'"),
        ({"num_attention_heads": 5}, "evenly"),
        ({"num_hidden_layers": 3}, "no tensor"),
        ({"type_vocab_size": 3}, "should have the shape"),
        ({"vocab_size": 499}, "The tokenizer has 500 tokens"),
        ({"hidden_size": "wide"}, "cannot be used"),
        ({"quantization_config": {"bits": 8}}, "quantization_config"),
        ({"id2label": {"0": "a", "7": "b"}}, "with gaps"),
    ],
)
def test_what_we_do_not_compute_is_refused_by_name(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    folder = save(encoder("BertForSequenceClassification"), tmp_path / "hf")
    change(folder / "config.json", **fields)
    with pytest.raises(ModelFolderError, match=reason):
        imported(folder)
    assert not (tmp_path / "m").exists()


def test_an_encoder_has_no_chat_template(tmp_path: Path) -> None:
    folder = save(encoder("BertModel"), tmp_path / "hf")
    with pytest.raises(ConfigError, match="no chat template"):
        import_model(str(folder), tmp_path / "m", "chatml")
