"""It learns: from raw text to ≥ 99% right on sequences it has never seen, with a fresh seed every time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import sixfold

SYMBOLS = "abcdefgh"
NUM_TRAINING, NUM_TEST = 10_000, 300
TASKS: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "copy": lambda symbols: symbols,
    "reverse": lambda symbols: symbols[::-1],
    "sort": sorted,
}
SETTINGS = (
    "model.layers=2", "model.d_model=64", "model.d_ff=128", "model.heads=4", "model.norm=pre", "model.dropout=0",
    "data.vocabulary=300", "data.valid_pairs=100",
    "train.steps=600", "train.batch_tokens=512", "train.checkpoint_every=600", "train.average=1",
    "train.schedule=linear_decay", "train.learning_rate=3e-3", "train.warmup_steps=50", "train.label_smoothing=0",
)  # fmt: skip


def sequences(seed: int) -> list[tuple[str, ...]]:
    """Return different random sequences of three to eight symbols."""
    draw = random.Random(seed)
    found: dict[tuple[str, ...], None] = {}
    while len(found) < NUM_TRAINING + NUM_TEST:
        found[tuple(draw.choices(SYMBOLS, k=draw.randint(3, 8)))] = None
    shuffled = list(found)
    draw.shuffle(shuffled)  # the short ones are used up early
    return shuffled


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize("task", TASKS)
def test_a_small_model_learns_to(task: str, tmp_path: Path, seed: int) -> None:
    found = sequences(seed)
    test, training = found[:NUM_TEST], found[NUM_TEST:]
    for name, function in (("text.source", TASKS["copy"]), ("text.target", TASKS[task])):
        lines = [" ".join(function(symbols)) + "\n" for symbols in training]
        (tmp_path / name).write_text("".join(lines))
    sixfold.train(
        tmp_path / "text.source", tmp_path / "text.target", tmp_path / "model", seed=seed, settings=SETTINGS
    )
    translations = sixfold.load(tmp_path / "model").translate([" ".join(symbols) for symbols in test])
    expected = [" ".join(TASKS[task](symbols)) for symbols in test]
    num_right = sum(ours == theirs for ours, theirs in zip(translations, expected, strict=True))
    assert num_right >= 0.99 * NUM_TEST
