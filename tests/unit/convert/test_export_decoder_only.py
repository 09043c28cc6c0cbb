"""Models that generate go out as Hugging Face folders and GGUF files, and come back the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.unit.convert.decoder_only_models import KINDS, learn_tokenizer, make_model, save

from sixfold.convert.export_decoder_only import TOLERANCES, to_gguf, to_huggingface
from sixfold.convert.gguf import Precision
from sixfold.convert.import_model import import_model, opened
from sixfold.errors import ConfigError
from sixfold.text import Tokenizer
from sixfold.text.chat import SIXFOLD_TEMPLATE, Message, prompt_tokens

transformers = pytest.importorskip("transformers")
pytest.importorskip("gguf")

TEXTS = ["The old man's 12345 dogs,\n\n  and CATS!", "naïve 日本語 🙂", " x  y", "a"]
TALK = [Message("system", "be kind"), Message("user", "who are you"), Message("assistant", "me")]


@pytest.fixture(scope="module", autouse=True)
def quick(one_core: None) -> None:
    """Use one core: the models are tiny."""


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer()


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_gives_the_same_logits_and_ids(kind: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    ours = make_model(tokenizer, **KINDS[kind])
    to_huggingface(save(ours, tokenizer, tmp_path / "m"), tmp_path / "hf")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    engine = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for text in TEXTS:
        ids = engine(text).input_ids
        assert ids == [1, *tokenizer.encode(text)]
        assert engine.decode(ids, skip_special_tokens=True) == text
        with torch.inference_mode():
            tokens = torch.tensor([ids])
            torch.testing.assert_close(theirs(tokens).logits, ours(tokens), rtol=0, atol=1e-4)


@pytest.mark.usefixtures("seed")
def test_transformers_reads_a_conversation_as_we_do(tmp_path: Path, tokenizer: Tokenizer) -> None:
    to_huggingface(save(make_model(tokenizer, **KINDS["Llama"]), tokenizer, tmp_path / "m"), tmp_path / "hf")
    engine = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    messages = [{"role": message.role, "content": message.content} for message in TALK]
    text = engine.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text == "<s><|system|>be kind<|user|>who are you<|assistant|>me</s><|assistant|>"
    ids = engine.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    ours = [1, *prompt_tokens(tokenizer, SIXFOLD_TEMPLATE, TALK)]
    marks = set(range(4)) | set(tokenizer.processor.piece_to_id(["<|system|>", "<|user|>", "<|assistant|>"]))
    assert [token for token in ids if token in marks] == [token for token in ours if token in marks]


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_folder_comes_back_as_the_same_model(kind: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    ours = make_model(tokenizer, **KINDS[kind])
    to_huggingface(save(ours, tokenizer, tmp_path / "m"), tmp_path / "hf")
    import_model(str(tmp_path / "hf"), tmp_path / "again")
    assert_same(ours, tokenizer, tmp_path / "again", 0.0)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", TOLERANCES)
def test_a_gguf_file_comes_back_as_the_same_model(
    kind: str, precision: Precision, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    ours = make_model(tokenizer, **KINDS[kind])
    to_gguf(save(ours, tokenizer, tmp_path / "m"), tmp_path / "m.gguf", precision)
    import_model(str(tmp_path / "m.gguf"), tmp_path / "again")
    step = {"float32": 0.0, "float16": 1e-3, "q8_0": 1e-2}[precision]
    assert_same(ours, tokenizer, tmp_path / "again", step)


def assert_same(ours: torch.nn.Module, tokenizer: Tokenizer, folder: Path, step: float) -> None:
    """Hold weights, tokens and the template against those that were exported."""
    model, engine, start = opened(folder)
    for name, weight in ours.named_parameters():
        again = model.get_parameter(name)
        assert (again - weight).abs().max() <= step * weight.abs().max()
    assert start == 1
    assert engine.special == tokenizer.special
    for text in TEXTS:
        assert engine.encode(text) == tokenizer.encode(text)
        assert engine.decode(engine.encode(text)) == text
    info = json.loads((folder / "sixfold.json").read_text())
    assert info["processors"]["text"]["chat"]["user"] == [SIXFOLD_TEMPLATE.user[0], SIXFOLD_TEMPLATE.user[1]]


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("kind", ["GPT-2", "Llama"])
def test_the_gguf_reader_of_transformers_sees_the_same_model(
    kind: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    ours = make_model(tokenizer, **{**KINDS[kind], "d_ff": 128, "max_positions": 1024})  # GPT-2's, which it takes
    path = tmp_path / "m.gguf"
    to_gguf(save(ours, tokenizer, tmp_path / "m"), path)
    described = load_gguf_checkpoint(str(path))["config"]
    config = transformers.CONFIG_MAPPING[described.pop("model_type")](**described)
    theirs = transformers.AutoModelForCausalLM.from_config(config).eval()
    state = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=theirs)["tensors"]
    theirs.load_state_dict(state, strict=False)
    theirs.tie_weights()
    tokens = torch.randint(tokenizer.vocabulary, (2, 40))
    with torch.inference_mode():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=0, atol=1e-4)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"norm": "pre"}, "sinusoidal"),
        ({**KINDS["GPT-2"], "positions": "rotary"}, "norm_kind=layer"),
        ({**KINDS["Llama"], "positions": "learned"}, "rms"),
        ({**KINDS["GPT-2"], "key_value_heads": 2}, "key_value_heads=2"),
        ({**KINDS["GPT-2"], "scaled_embedding": True}, "scaled_embedding"),
        ({**KINDS["Llama"], "d_k": 16, "d_v": 12}, "d_k=16 and d_v=12"),
        ({**KINDS["Llama"], "score_scale": 0.3}, "score_scale"),
    ],
)
def test_what_a_format_cannot_express_is_refused_with_the_reason(
    tmp_path: Path, tokenizer: Tokenizer, choices: dict[str, object], reason: str
) -> None:
    folder = save(make_model(tokenizer, **choices), tokenizer, tmp_path / "m")
    for export, out in ((to_huggingface, "hf"), (to_gguf, "m.gguf")):
        with pytest.raises(ConfigError, match=reason):
            export(folder, tmp_path / out)
        assert not (tmp_path / out).exists()


@pytest.mark.usefixtures("seed")
def test_unigram_subwords_are_refused_with_what_works(tmp_path: Path) -> None:
    tokenizer = Tokenizer.learn(["how are you today", "a good day to you"] * 20, 300, "unigram")
    folder = save(make_model(tokenizer, **KINDS["Llama"]), tokenizer, tmp_path / "m")
    with pytest.raises(ConfigError, match="unigram"):
        to_huggingface(folder, tmp_path / "hf")
    with pytest.raises(ConfigError, match="unigram"):
        to_gguf(folder, tmp_path / "m.gguf")


@pytest.mark.usefixtures("seed")
def test_a_file_that_is_there_is_not_replaced(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "m.gguf").write_text("mine")
    with pytest.raises(ConfigError, match="already exists"):
        to_gguf(save(make_model(tokenizer, **KINDS["Llama"]), tokenizer, tmp_path / "m"), tmp_path / "m.gguf")
    assert (tmp_path / "m.gguf").read_text() == "mine"
