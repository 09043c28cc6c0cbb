"""The model card says what was made, how good it is and how to run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.models.folder import ModelInfo, load_info
from sixfold.tasks.generate.card import card
from sixfold.training.card import model_card

BEST = {
    "name": "bits per byte", "score": 1.98765, "decimals": 3, "loss": 4.5678, "step": 70, "weights": "single",
    "conditions": "rows of 256 tokens",
}  # fmt: skip


@pytest.fixture(scope="module")
def info(chat_model: Path) -> ModelInfo:
    """Return what is known of a model that answers."""
    return load_info(chat_model)


def text_of(info: ModelInfo, **changes: object) -> str:
    info = info.model_copy(update=changes)
    return model_card(card(info), info, parameters=123_456)


def test_it_says_how_to_run_the_model_and_how_large_it_is(info: ModelInfo) -> None:
    text = text_of(info)
    assert '    sixfold generate . --chat "your question"\n' in text
    assert "| parameters | 123,456 |" in text


def test_it_shows_the_score_with_the_digits_that_mean_something(info: ModelInfo) -> None:
    text = text_of(info, scores={"validation": BEST})
    assert "| validation | bits per byte 1.988, loss 4.568 at step 70 (single; rows of 256 tokens) |" in text


def test_the_table_has_no_gap(info: ModelInfo) -> None:
    base = {"name": "older", "sha256": ["0" * 64]}
    text = text_of(info, scores={"validation": BEST, "base": BEST}, training={"base": base})
    table = text[text.index("| | |") :].split("\n\n")[0].splitlines()
    assert all(row.startswith("| ") and row.endswith(" |") for row in table if row != "|---|---|")
    assert "| base model | older" in text
