"""The training loop: what it changes from step to step."""

from __future__ import annotations

from pathlib import Path

import pytest

import sixfold
from sixfold.training import loop

SETTINGS = (
    "model.layers=1", "model.d_model=16", "model.heads=2", "model.d_ff=16", "model.dropout=0.3",
    "data.vocabulary=290", "data.valid_pairs=5", "train.batch_tokens=64", "train.valid_sentences=1",
    "train.steps=20", "train.checkpoint_every=20", "train.warmup_steps=2",
)  # fmt: skip


def dropouts(folder: Path, monkeypatch: pytest.MonkeyPatch, *settings: str) -> list[float]:
    """Train for 20 steps; return the probabilities that were set, step by step."""
    seen: list[float] = []
    monkeypatch.setattr(loop, "set_dropout", lambda _, p: seen.append(p))
    train(folder, *settings)
    return seen


def train(folder: Path, *settings: str) -> None:
    """Train for 20 steps."""
    for side in ("en", "de"):
        (folder / f"train.{side}").write_text("".join(f"{side} {number}\n" for number in range(40)))
    sixfold.train(folder / "train.en", folder / "train.de", folder / "model", settings=[*SETTINGS, *settings])


def test_dropout_rises_to_the_models_and_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = dropouts(tmp_path, monkeypatch, "train.dropout_warmup=0.5")
    assert seen == pytest.approx([0.3 * min(step / 10, 1) for step in range(20)])


def test_dropout_is_left_alone_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dropouts(tmp_path, monkeypatch, "train.dropout_warmup=0") == []
