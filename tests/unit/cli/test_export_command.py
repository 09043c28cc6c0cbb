"""`sixfold export` as a person uses it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sixfold.convert import compare as comparing
from sixfold.convert import ctranslate2 as ct2
from sixfold.convert import huggingface
from sixfold.decode.translate import read
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.models.folder import ModelInfo, save_model
from sixfold.models.weights import weights_of

Command = Callable[..., tuple[int, str, str]]

MODEL = Path(__file__).parents[2] / "compat" / "format-1"


@pytest.fixture(autouse=True)
def few_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with few sentences: the engines have tests of their own."""
    monkeypatch.setattr(comparing, "WRITTEN", 5)
    monkeypatch.setattr(comparing, "UNUSUAL", comparing.UNUSUAL[:2])


@pytest.mark.parametrize("target", ["ctranslate2", "huggingface"])
def test_it_exports_and_says_what_was_compared(command: Command, tmp_path: Path, target: str) -> None:
    pytest.importorskip({"ctranslate2": "ctranslate2", "huggingface": "transformers"}[target])
    code, output, _ = command("export", MODEL, "--to", target, "-o", tmp_path / "out")
    assert code == 0
    assert "7 of 7" in output
    assert {"README.md", "config.json"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


@pytest.mark.parametrize("target", ["ctranslate2", "huggingface"])
def test_what_other_engines_do_not_do_is_said(command: Command, tmp_path: Path, target: str) -> None:
    pytest.importorskip({"ctranslate2": "ctranslate2", "huggingface": "transformers"}[target])
    [model], tokenizer, _ = read(MODEL)
    two = [weights_of(model), weights_of(EncoderDecoder(model.config))]
    described = ModelInfo(model=model.config)
    save_model(tmp_path / "two", described, two, tokenizer, "two models\n")
    for folder, is_said in ((MODEL, False), (tmp_path / "two", True)):
        out = tmp_path / f"out-{is_said}"
        code, output, _ = command("export", folder, "--to", target, "-o", out)
        assert code == 0
        assert ("only the first was exported" in output) == is_said
        assert ("the first of its 2 models" in (out / "README.md").read_text()) == is_said


@pytest.mark.parametrize("engine", [ct2.CTranslate2Engine, huggingface.HuggingFaceEngine])
def test_a_wrong_export_is_removed_and_its_sentence_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: type
) -> None:
    def wrong(self: object, texts: list[str], limits: list[int]) -> list[comparing.Output]:  # noqa: ARG001
        return [comparing.Output([300], "wrong") for _ in texts]

    monkeypatch.setattr(engine, "translate", wrong)
    target = "ctranslate2" if engine is ct2.CTranslate2Engine else "huggingface"
    pytest.importorskip({"ctranslate2": "ctranslate2", "huggingface": "transformers"}[target])
    code, _, messages = command("export", MODEL, "--to", target, "-o", tmp_path / "out")
    assert code == 1
    assert "source: " in messages
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_refused(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    (tmp_path / "mine").write_text("mine")
    code, _, messages = command("export", MODEL, "--to", "ctranslate2", "-o", tmp_path)
    assert code == 2
    assert "already exists" in messages
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_unknown_format_is_refused_with_the_known_ones(command: Command, tmp_path: Path) -> None:
    code, _, messages = command("export", MODEL, "--to", "onnx", "-o", tmp_path / "out")
    assert code == 2
    assert "ctranslate2" in messages
    assert "huggingface" in messages


def test_a_folder_that_is_no_model_is_refused(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    code, _, messages = command("export", tmp_path, "--to", "ctranslate2", "-o", tmp_path / "out")
    assert code == 2
    assert "not a model folder" in messages


@pytest.mark.parametrize(("target", "package"), [("ctranslate2", "ctranslate2"), ("huggingface", "transformers")])
def test_a_missing_package_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    code, _, messages = command("export", MODEL, "--to", target, "-o", tmp_path / "out")
    assert code == 2
    assert "sixfold[export]" in messages
