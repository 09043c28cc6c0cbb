"""Hugging Face folders come in: random models of transformers give the same logits here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sixfold.convert.import_model import Imported, import_model, opened
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.folder import load_info

pytest.importorskip("transformers")

from tests.unit.convert.published_models import (
    CHATML,
    VOCABULARY,
    byte_level_tokenizer,
    change,
    gpt2,
    llama,
    save,
)

MODELS: dict[str, Callable[[], Any]] = {
    "GPT-2": gpt2,
    "GPT-2, its own head": lambda: gpt2(tie_word_embeddings=False, n_inner=40, activation_function="relu"),
    "GPT-2, unscaled scores": lambda: gpt2(scale_attn_weights=False, layer_norm_epsilon=1e-3),
    "Llama, grouped heads": llama,
    "Llama, tied, far positions": lambda: llama(tie_word_embeddings=True, rope_theta=500_000.0, rms_norm_eps=1e-3),
    "Llama, biases": lambda: llama(attention_bias=True, mlp_bias=True, num_key_value_heads=4),
    "Llama, wide heads": lambda: llama(head_dim=12, hidden_act="gelu"),
}


@pytest.fixture(scope="module")
def tokenizer() -> bytes:
    return byte_level_tokenizer()


def imported(folder: Path, chat: str = "auto") -> Imported:
    return import_model(str(folder), folder.parent / "m", chat)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("name", MODELS)
def test_logits_equal_those_of_transformers(name: str, tmp_path: Path, tokenizer: bytes) -> None:
    theirs = MODELS[name]()
    done = imported(save(theirs, tmp_path / "hf", tokenizer))
    ours, _, _ = opened(tmp_path / "m")
    tokens = torch.randint(VOCABULARY, (2, 60))
    with torch.inference_mode():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=0, atol=1e-4)
    _, comparison = done.comparisons
    assert comparison.difference <= comparison.allowed


@pytest.mark.usefixtures("seed")
def test_shards_give_the_same_model_as_one_file(tmp_path: Path, tokenizer: bytes) -> None:
    theirs = llama()
    save(theirs, tmp_path / "one", tokenizer)
    save(theirs, tmp_path / "many", tokenizer, max_shard_size="30KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    for name in ("one", "many"):
        import_model(str(tmp_path / name), tmp_path / f"m-{name}")
    one, many = ((tmp_path / f"m-{name}" / "weights.safetensors").read_bytes() for name in ("one", "many"))
    assert one == many


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize(("dtype", "name"), [(torch.float16, "float16"), (torch.bfloat16, "bfloat16")])
def test_the_folder_keeps_the_type_of_the_weights(
    tmp_path: Path, tokenizer: bytes, dtype: torch.dtype, name: str
) -> None:
    theirs = llama().to(dtype)
    imported(save(theirs, tmp_path / "hf", tokenizer))
    assert load_info(tmp_path / "m").dtype == name
    stored = load_file(tmp_path / "m" / "weights.safetensors")
    assert torch.equal(stored["stem.embedding.weight"], theirs.model.embed_tokens.weight)


@pytest.mark.usefixtures("seed")
def test_files_of_gpt_2_without_the_prefix_and_with_its_old_masks_are_read(
    tmp_path: Path, tokenizer: bytes
) -> None:
    folder = save(gpt2(), tmp_path / "hf", tokenizer)
    tensors = {
        name.removeprefix("transformer."): each for name, each in load_file(folder / "model.safetensors").items()
    }
    save_file(
        {**tensors, "h.0.attn.bias": torch.ones(1, 1, 64, 64)}, folder / "model.safetensors", {"format": "pt"}
    )
    assert imported(folder).comparisons


@pytest.mark.usefixtures("seed")
def test_rows_without_a_token_are_kept_and_get_names(tmp_path: Path) -> None:
    imported(save(llama(), tmp_path / "hf", byte_level_tokenizer(size=400)))
    model, tokenizer, _ = opened(tmp_path / "m")
    assert tokenizer.vocabulary == model.config.vocabulary == VOCABULARY
    assert tokenizer.pieces([VOCABULARY - 1]) == [f"<|unused_{VOCABULARY - 1}|>"]


# Special tokens and conversations


@pytest.mark.usefixtures("seed")
def test_the_template_comes_as_plain_text_and_its_end_ends_a_text(tmp_path: Path, tokenizer: bytes) -> None:
    folder = save(gpt2(), tmp_path / "hf", tokenizer)
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHATML}))
    change(folder / "config.json", eos_token_id=[0, 2])
    side = imported(folder).info.processors["text"]
    assert side.chat is not None
    assert side.chat.user == ("<|im_start|>user\n", "<|im_end|>\n")
    assert (side.special.bos, side.special.eos, side.decoder_start) == (1, 2, None)


@pytest.mark.usefixtures("seed")
def test_a_token_that_the_tokenizer_puts_first_stands_before_every_text(tmp_path: Path, tokenizer: bytes) -> None:
    first = {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    content = json.loads(tokenizer) | {"post_processor": {"type": "TemplateProcessing", "single": [first, text]}}
    content["post_processor"] |= {"pair": [first, text], "special_tokens": {
        "<|im_start|>": {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}
    }}  # fmt: skip
    folder = save(llama(), tmp_path / "hf", json.dumps(content).encode())
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ bos_token }}" + CHATML}))
    side = imported(folder).info.processors["text"]
    assert side.decoder_start == 1
    assert side.chat is not None
    assert side.chat.begin == ""  # what stands before every text stands there once


@pytest.mark.usefixtures("seed")
def test_a_template_that_is_not_known_is_refused_and_may_be_left_out_or_named(
    tmp_path: Path, tokenizer: bytes
) -> None:
    folder = save(llama(), tmp_path / "hf", tokenizer)
    (folder / "chat_template.jinja").write_text("{{ messages | tojson }}")
    with pytest.raises(ModelFolderError, match="never executes") as error:
        imported(folder)
    assert "--chat none" in error.value.hint
    assert not (tmp_path / "m").exists()
    assert import_model(str(folder), tmp_path / "a", "none").info.processors["text"].chat is None
    assert import_model(str(folder), tmp_path / "b", "chatml").info.processors["text"].chat is not None
    with pytest.raises(ConfigError, match="no chat template"):
        import_model(str(folder), tmp_path / "c", "chatlm")


# What is refused


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        (
            {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "rope_theta": 1e4}},
            "scales rotary positions",
        ),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": None}, "scales rotary positions"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"hidden_act": "tanh"}, "hidden_act='tanh'"),
        ({"num_attention_heads": 5}, "evenly"),
        ({"num_hidden_layers": 3}, "no tensor"),
        ({"num_hidden_layers": 1}, "which this kind of model does not have"),
        ({"intermediate_size": 40}, "should have the shape"),
        ({"num_hidden_layers": 10**9}, "less than or equal to 128"),
        ({"hidden_size": "many"}, "cannot be used"),
        ({"vocab_size": 300}, "should have the shape"),
        ({"eos_token_id": 900}, "outside the"),
    ],
)
def test_what_we_do_not_compute_is_refused_by_name(
    tmp_path: Path, tokenizer: bytes, fields: dict[str, Any], reason: str
) -> None:
    folder = save(llama(), tmp_path / "hf", tokenizer)
    change(folder / "generation_config.json", eos_token_id=None)
    change(folder / "config.json", **fields)
    with pytest.raises(ModelFolderError, match=reason):
        imported(folder)
    assert not (tmp_path / "m").exists()


@pytest.mark.usefixtures("seed")
def test_pickles_are_not_opened_and_safetensors_asked_for(tmp_path: Path, tokenizer: bytes) -> None:
    folder = save(llama(), tmp_path / "hf", tokenizer)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelFolderError, match="could execute code"):
        imported(folder)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize(
    "name", ["../model-1.safetensors", "/etc/passwd", "model.bin", "there-is-none.safetensors"]
)
def test_an_index_cannot_lead_out_of_the_folder(tmp_path: Path, tokenizer: bytes, name: str) -> None:
    folder = save(llama(), tmp_path / "hf", tokenizer)
    (folder / "model.safetensors").rename(tmp_path / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))
    with pytest.raises(ModelFolderError, match="not a safetensors file in this folder"):
        imported(folder)


@pytest.mark.usefixtures("seed")
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, tokenizer: bytes) -> None:
    theirs = llama()
    with torch.no_grad():
        theirs.model.norm.weight[3] = float("nan")
    with pytest.raises(ModelFolderError, match=r"model\.norm\.weight contains numbers that are not finite"):
        imported(save(theirs, tmp_path / "hf", tokenizer))
