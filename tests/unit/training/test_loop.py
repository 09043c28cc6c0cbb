"""The training loop: what it changes from step to step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sixfold
from sixfold.data.batches import IdPairs, turn
from sixfold.text.tokens import BACK_ID
from sixfold.training import loop
from sixfold.training.loop import RunState, is_better

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
    seen = dropouts(tmp_path, monkeypatch, "train.dropout_rise=0.5")
    assert seen == pytest.approx([0.3 * min(step / 10, 1) for step in range(20)])


def test_dropout_is_left_alone_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dropouts(tmp_path, monkeypatch, "train.dropout_rise=0") == []


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_the_share_of_the_pairs_is_turned_that_was_asked_for(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned: list[IdPairs] = []

    def remember(ids: IdPairs, chance: float, random: np.random.Generator) -> IdPairs:
        turned.append(turn(ids, chance, random))
        return turned[-1]

    monkeypatch.setattr("sixfold.training.vary.turn", remember)
    train(tmp_path, f"train.both_ways={share}")
    assert len(turned) == (20 if share else 0)
    marks = [pair.begin == BACK_ID for ids in turned for pair in ids]
    assert sum(marks) == pytest.approx(share * len(marks), abs=0.2 * len(marks) * (share == 0.5))


def test_where_bleu_differs_by_chance_the_loss_decides() -> None:
    state = RunState(best={"bleu": 40.0, "loss": 1.5}, highest_bleu=40.0)
    assert is_better(0.0, 9.0, RunState())
    assert is_better(41.0, 1.6, state)
    assert not is_better(39.0, 1.4, state)
    assert is_better(39.9, 1.4, state)
    assert not is_better(40.1, 1.6, state)
    assert not is_better(40.0, 1.5, state)


def test_small_losses_of_bleu_do_not_add_up() -> None:
    fallen = RunState(best={"bleu": 39.6, "loss": 1.4}, highest_bleu=40.0)
    assert not is_better(39.3, 1.3, fallen)
    assert is_better(39.7, 1.3, fallen)
    assert is_better(40.2, 1.6, fallen)  # far above the one that is kept
