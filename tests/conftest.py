"""Fixtures of all tests."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

NUMBER_WORDS = {
    "en": "one two three four five six seven eight nine ten",
    "de": "eins zwei drei vier fünf sechs sieben acht neun zehn",
}
SMALL_SETTINGS = (
    "model.layers=1", "model.d_model=64", "model.d_ff=128", "model.heads=4", "model.norm=pre", "model.dropout=0",
    "data.vocabulary=400", "data.valid_pairs=20",
    "train.steps=300", "train.batch_tokens=512", "train.checkpoint_every=150", "train.patience=0",
    "train.schedule=linear_decay", "train.learning_rate=3e-3", "train.warmup_steps=30",
)  # fmt: skip


@pytest.fixture
def seed() -> Iterator[int]:
    """Seed torch differently in every run, so that no lucky draw hides a fault; a failure prints the seed."""
    import torch

    value = int(os.environ.get("SIXFOLD_TEST_SEED") or random.SystemRandom().randrange(2**31))
    print(f"to repeat this: SIXFOLD_TEST_SEED={value}")
    torch.manual_seed(value)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors of a few numbers: a second thread would only be waited for
    yield value
    torch.set_num_threads(num_threads)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Let this process, and what it starts, use one core: small tensors gain little by a second, and lose much
    where it is shared with others.
    """
    import torch

    cores, num_threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, {random.choice(sorted(cores))})
    torch.set_num_threads(1)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(num_threads)


@pytest.fixture(scope="module")
def one_core() -> Iterator[None]:
    """Use one core in all tests of a file."""
    with on_one_core():
        yield


@dataclass(frozen=True)
class SmallModel:
    """A model that knows its number words from one to ten, and a test set of others' sequences of them."""

    folder: Path
    source: Path
    target: Path


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> SmallModel:
    """Train a small model once for all tests that need one; it makes next to no mistake in its test set."""
    import sixfold

    folder, draw = tmp_path_factory.mktemp("small"), random.Random(7)
    rows = sorted({tuple(draw.choices(range(10), k=draw.randint(2, 6))) for _ in range(3000)})
    draw.shuffle(rows)
    for split, part in (("test", rows[:20]), ("train", rows[20:])):
        for language, words in NUMBER_WORDS.items():
            lines = [" ".join(words.split()[number] for number in row) + "\n" for row in part]
            (folder / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    with on_one_core():
        sixfold.train(folder / "train.en", folder / "train.de", folder / "model", settings=SMALL_SETTINGS)
    return SmallModel(folder / "model", folder / "test.en", folder / "test.de")
