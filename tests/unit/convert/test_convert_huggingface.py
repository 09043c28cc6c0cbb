"""A model in Hugging Face transformers is the same model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.convert import compare as comparing
from sixfold.convert import huggingface
from sixfold.convert.compare import TOLERANCE, UNUSUAL, compare
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import EncoderDecoderConfig
from sixfold.text import Tokenizer

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

Make = Callable[..., Translator]
Save = Callable[[Translator], Path]

TEXTS = ("The old man sees a dog.", "Do you like the blue house?", "I go home.", *UNUSUAL[:-1])
CHOICES = {
    "the paper's": {"norm": "post"},
    "pre-norm": {"norm": "pre"},
    "biases and unequal stacks": {"attention_bias": True, "encoder_layers": 2},
    "narrow heads": {"d_k": 3, "d_v": 5},
    "shared keys and values": {"key_value_heads": 2, "d_k": 5},
    "unscaled scores": {"score_scale": 1.0, "norm": "pre"},
    "no biases": {"feed_forward_bias": False},
    "learned positions": {"positions": "learned", "max_positions": 100, "norm": "pre"},
}
REFUSED = {
    "Marian": {"positions": "learned"},
    "attention_width=5": {"attention_width": 5},
    "d_k=100": {"d_k": 100},
    "ε=1e-06": {"norm_epsilon": 1e-6},
    "evenly": {"heads": 7, "d_k": 8, "d_v": 8},
}


@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
def test_every_choice_gives_the_same_texts_and_scores(
    make: Make, tmp_path: Path, choices: dict[str, object]
) -> None:
    translator = make(**choices)
    huggingface.write(translator, tmp_path)
    comparison = compare(translator, huggingface.HuggingFaceEngine(tmp_path), TEXTS)
    assert comparison.num_sentences == len(TEXTS)
    assert comparison.largest_difference < TOLERANCE / 10


@pytest.mark.parametrize("choices", REFUSED.values(), ids=REFUSED)
def test_what_no_class_expresses_is_refused_with_the_reason(
    choices: dict[str, object], request: pytest.FixtureRequest
) -> None:
    with pytest.raises(ConfigError, match=request.node.callspec.id):
        huggingface.refuse_unsupported(EncoderDecoderConfig.model_validate({"vocabulary": 100, **choices}))


def test_a_post_norm_model_opens_as_a_marian(make: Make, tmp_path: Path) -> None:
    huggingface.write(make(norm="post"), tmp_path)
    assert transformers.MarianMTModel.from_pretrained(tmp_path).config.model_type == "marian"
    assert isinstance(transformers.AutoTokenizer.from_pretrained(tmp_path), transformers.MarianTokenizer)


def test_a_model_that_is_loaded_and_saved_again_still_agrees(make: Make, tmp_path: Path) -> None:
    translator = make(norm="pre", positions="learned", max_positions=100)
    huggingface.write(translator, tmp_path)
    engine = huggingface.HuggingFaceEngine(tmp_path)
    engine.model.save_pretrained(tmp_path)
    engine.tokenizer.save_pretrained(tmp_path)
    assert compare(translator, huggingface.HuggingFaceEngine(tmp_path), TEXTS).num_ties == 0


@pytest.fixture(scope="module")
def marian_tokenizer(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("tokenizer")
    huggingface.write_tokenizer(tokenizer, folder, 1000)
    return huggingface.load_tokenizer(folder)


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(st.characters(exclude_characters="\n\0▁", exclude_categories=["Cs"]), min_size=1, max_size=20)
    | st.sampled_from(["</s>", "a <pad> b", "<unk>", "<s>x</s>"])
)
def test_the_tokenizer_spells_as_ours_does(marian_tokenizer: object, tokenizer: Tokenizer, text: str) -> None:
    if not text.startswith(">>"):
        assert marian_tokenizer(text).input_ids == [*tokenizer.encode(text), 2]  # type: ignore[operator]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_python_of_the_readme_prints_a_translation(
    make: Make,
    save: Save,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    norm: str,
) -> None:
    monkeypatch.setattr(comparing, "WRITTEN", 5)
    huggingface.export(save(make(norm=norm)), tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (tmp_path / "out" / "README.md").read_text(), re.DOTALL)
    capsys.readouterr()
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("[")
