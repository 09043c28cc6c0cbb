"""Cancelling a search."""

from __future__ import annotations

from pathlib import Path

import pytest

import sixfold
from sixfold.decode.search import Stopped

MODEL = Path(__file__).parents[2] / "compat" / "format-1-phrases"
OPTIONS = [
    sixfold.SearchOptions(),
    sixfold.SearchOptions(beam=1),
    sixfold.SearchOptions(sample=1.0),
    sixfold.SearchOptions(forbid=("Hund",)),
    sixfold.SearchOptions(require=("Hund",)),
]


@pytest.mark.parametrize("options", OPTIONS, ids=["beam", "greedy", "draws", "rules", "phrases"])
def test_every_search_checks_for_cancellation_before_each_step(options: sixfold.SearchOptions) -> None:
    translator = sixfold.load(MODEL, "cpu")
    expected = translator.translate(["The old man sees a dog."], options)
    asked = 0

    def after(most: int) -> bool:
        nonlocal asked
        asked += 1
        return asked > most

    translator.decoder.should_stop = lambda: after(3)
    with pytest.raises(Stopped):
        translator.translate(["The old man sees a dog."], options)
    assert asked == 4
    translator.decoder.should_stop = lambda: after(10_000)
    assert translator.translate(["The old man sees a dog."], options) == expected
