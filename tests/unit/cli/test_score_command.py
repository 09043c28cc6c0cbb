"""`sixfold score`: the numbers are those that `sixfold translate` reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest


class SmallModel(Protocol):
    """A trained model and its test set (see tests/conftest.py)."""

    folder: Path
    source: Path
    target: Path


Command = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("beam", ["1", "4"])
def test_the_numbers_are_those_of_translate(
    command: Command, small_model: SmallModel, tmp_path: Path, beam: str
) -> None:
    _, out, _ = command("translate", small_model.folder, small_model.source, "--json", "--beam", beam)
    translated = [json.loads(line)["translations"][0] for line in out.splitlines()]
    (tmp_path / "translations").write_text("".join(each["text"] + "\n" for each in translated))
    code, out, _ = command("score", small_model.folder, small_model.source, tmp_path / "translations", "--json")
    scored = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    for name in ("log_probability", "score"):
        assert [each[name] for each in scored] == pytest.approx([each[name] for each in translated], abs=1e-4)
    assert [each["num_tokens"] for each in scored] == [each["num_tokens"] for each in translated]


def test_the_numbers_are_those_of_translate_with_a_partner_and_another_length_penalty(
    command: Command, small_model: SmallModel, tmp_path: Path
) -> None:
    options = ("--json", "--set", "decode.length_penalty=1.4", "--with", small_model.folder)
    _, out, _ = command("translate", small_model.folder, small_model.source, *options)
    translated = [json.loads(line)["translations"][0] for line in out.splitlines()]
    (tmp_path / "translations").write_text("".join(each["text"] + "\n" for each in translated))
    _, out, _ = command("score", small_model.folder, small_model.source, tmp_path / "translations", *options)
    scored = [json.loads(line) for line in out.splitlines()]
    for name in ("log_probability", "score"):
        assert [each[name] for each in scored] == pytest.approx([each[name] for each in translated], abs=1e-4)


def test_an_impossible_length_penalty_is_refused(command: Command, small_model: SmallModel) -> None:
    code, out, messages = command(
        "score", small_model.folder, small_model.source, "--set", "decode.length_penalty=-1"
    )
    assert (code, out) == (2, "")
    assert "length_penalty must be from 0 to 10" in messages


@pytest.mark.parametrize("setting", ["decode.beam=4", "decode.length_penalty=1"])
def test_what_would_not_count_is_refused(command: Command, small_model: SmallModel, setting: str) -> None:
    code, out, messages = command("score", small_model.folder, small_model.source, "--set", setting)
    assert (code, out) == (2, "")
    assert setting.partition("=")[0] in messages


def test_plain_output_is_one_number_a_line(command: Command, small_model: SmallModel) -> None:
    _, out, messages = command("score", small_model.folder, small_model.source, small_model.target)
    numbers = [float(line) for line in out.splitlines()]
    _, out, _ = command("score", small_model.folder, small_model.source, small_model.target, "--json")
    assert numbers == pytest.approx([json.loads(line)["log_probability"] for line in out.splitlines()], abs=1e-4)
    assert messages == ""


def test_a_wrong_translation_is_less_probable(command: Command, small_model: SmallModel) -> None:
    _, out, _ = command("score", small_model.folder, "-", stdin="one two\teins zwei\none two\tzwei eins\n")
    right, wrong = map(float, out.splitlines())
    assert right > wrong + 1


def test_files_of_unequal_length_are_refused(command: Command, small_model: SmallModel, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("eins\n")
    code, out, messages = command("score", small_model.folder, small_model.source, tmp_path / "short")
    assert (code, out) == (2, "")
    assert "has 20" in messages
    assert "\nhint: " in messages


def test_a_wrong_folder_is_refused(command: Command, small_model: SmallModel) -> None:
    code, _, messages = command("score", "no/such/model", small_model.source, small_model.target)
    assert code == 2
    assert messages.startswith("error: There is no model folder")
