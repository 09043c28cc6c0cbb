"""`sixfold plan`: what a training would be and cost, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest


class SmallModel(Protocol):
    """A trained model (see tests/conftest.py)."""

    folder: Path


Command = Callable[..., tuple[int, str, str]]
TINY = ["--set", "model.d_model=16", "--set", "model.heads=2", "--set", "model.layers=1", "--set", "model.d_ff=32"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A corpus of a hundred pairs, in a folder that holds nothing else."""
    monkeypatch.chdir(tmp_path)
    words = ("red", "green", "blue", "white", "black")
    lines = [f"{words[i % 5]} {words[i // 5 % 5]} {words[i // 25]}\n" for i in range(100)]
    (tmp_path / "a.en").write_text("".join(lines))
    (tmp_path / "a.de").write_text("".join(line.replace("e", "ö") for line in lines))
    return "a.en", "a.de"


def test_it_says_what_it_would_cost_and_writes_nothing(
    command: Command, files: tuple[str, str], tmp_path: Path
) -> None:
    code, out, _ = command("plan", *files, *TINY)
    assert code == 0
    for words in ("100 pairs", "parameters", "steps at", "padding", "of memory", "of disk", "warning: "):
        assert words in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en"]


def test_json_is_one_object_with_the_whole_recipe(command: Command, files: tuple[str, str]) -> None:
    _, out, _ = command("plan", *files, *TINY, "--set", "train.steps=77", "--json")
    found = json.loads(out)
    assert found["plan"]["recipe"]["train"]["steps"] == found["steps"] == 77
    assert found["plan"]["recipe"]["model"]["d_model"] == 16
    speed = found["speed"]
    assert min(speed["preparation_seconds"], speed["seconds_a_step"], speed["validation_seconds"]) > 0
    validations = -(-77 // found["plan"]["recipe"]["train"]["checkpoint_every"])
    assert found["seconds"] == pytest.approx(
        speed["preparation_seconds"] + 77 * speed["seconds_a_step"] + validations * speed["validation_seconds"]
    )
    assert found["disk_bytes"] > 4 * found["parameters"]


def test_the_disk_it_predicts_is_what_training_takes(
    command: Command, files: tuple[str, str], tmp_path: Path
) -> None:
    settings = [*TINY, "--set", "train.steps=20", "--set", "train.checkpoint_every=4", "--set", "model.d_ff=20000"]
    _, out, _ = command("plan", *files, *settings, "--json")
    assert command("train", *files, *settings, "-o", "model")[0] == 0
    taken = sum(path.stat().st_size for path in (tmp_path / "model").rglob("*") if path.is_file())
    assert json.loads(out)["disk_bytes"] == pytest.approx(taken, rel=0.2)


def test_a_budget_bounds_the_time(command: Command, files: tuple[str, str]) -> None:
    _, out, _ = command("plan", *files, *TINY, "--minutes", "0.01", "--json")
    assert json.loads(out)["seconds"] <= 0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.en", "nowhere"], "There is no file nowhere"),
        (["a.en", "--task", "translate"], "was given alone"),
        (["a.en", "a.de", "--set", "train.stepps=3"], "there is no key train.stepps"),
        (["a.en", "a.de", "--set", "data.max_tokens=1"], "Every pair is empty or longer than 1 tokens"),
        (["a.en", "a.de", "--recipe", "nowhere"], "There is no recipe nowhere"),
    ],
)
@pytest.mark.usefixtures("files")
def test_what_cannot_be_planned_is_refused(command: Command, arguments: list[str], message: str) -> None:
    code, out, messages = command("plan", *arguments)
    assert (code, out) == (2, "")
    assert messages.startswith("error: ")
    assert message in messages


def test_a_fine_tuning_is_planned_with_the_bases_own_shape(
    command: Command, files: tuple[str, str], small_model: SmallModel
) -> None:
    code, out, _ = command("plan", *files, "--init", small_model.folder, "--set", "train.valid_sentences=4")
    assert code == 0
    assert "fine-tunes model, whose 1 + 1 layers of width 64" in out
    assert "learning rate 0.0001" in out
