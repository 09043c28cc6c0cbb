"""A model in CTranslate2 is the same model."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sixfold.convert import compare as comparing
from sixfold.convert import ctranslate2 as ct2
from sixfold.convert.compare import TOLERANCE, UNUSUAL, compare
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import EncoderDecoderConfig

pytest.importorskip("ctranslate2")

Make = Callable[..., Translator]
Save = Callable[[Translator], Path]

TEXTS = ("The old man sees a dog.", "Do you like the blue house?", "I go home.", *UNUSUAL)
CHOICES = {
    "the paper's": {"norm": "post"},
    "pre-norm": {"norm": "pre"},
    "biases and unequal stacks": {"attention_bias": True, "encoder_layers": 2},
    "narrow heads": {"d_k": 3, "d_v": 5},
    "shared keys and values": {"key_value_heads": 2, "d_k": 5},
    "unscaled scores": {"score_scale": 1.0, "norm": "pre"},
    "no biases": {"feed_forward_bias": False},
    "another epsilon": {"norm_epsilon": 0.01},
    "wide heads": {"d_k": 20, "d_v": 12, "norm": "pre"},
    "uneven heads": {"heads": 3, "d_k": 8, "d_v": 8},
    "learned positions": {"positions": "learned", "max_positions": 200},
}


@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
def test_every_choice_gives_the_same_texts_and_scores(
    make: Make, tmp_path: Path, choices: dict[str, object]
) -> None:
    translator = make(**choices)
    ct2.write(translator, tmp_path)
    comparison = compare(translator, ct2.CTranslate2Engine(tmp_path), TEXTS)
    assert comparison.num_sentences >= len(TEXTS) - 1  # the longest is too long for few learned positions
    assert comparison.largest_difference < TOLERANCE / 10


def test_the_exported_model_runs_in_int8(make: Make, tmp_path: Path) -> None:
    translator = make()
    ct2.write(translator, tmp_path)
    engine = ct2.CTranslate2Engine(tmp_path, "int8")
    assert "int8" in engine.translator.compute_type
    ours = translator.score(TEXTS, TEXTS)
    for score, theirs in zip(ours, engine.score(TEXTS, TEXTS), strict=True):
        assert theirs == pytest.approx(score.log_probability, rel=0.05)


def test_restricted_attention_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="attention_width=5"):
        ct2.refuse_unsupported(EncoderDecoderConfig(vocabulary=100, attention_width=5))


def test_the_python_of_the_readme_prints_a_translation(
    make: Make, save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparing, "WRITTEN", 5)
    ct2.export(save(make()), tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (tmp_path / "out" / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()
