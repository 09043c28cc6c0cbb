"""Batches of token ids are searched for as long as somebody waits for them."""

from __future__ import annotations

import pytest

from sixfold.decode.options import SearchOptions
from sixfold.decode.search import Stopped
from sixfold.decode.translate import Translator


@pytest.mark.parametrize(
    "options",
    [SearchOptions(beam=1), SearchOptions(), SearchOptions(sample=1.0), SearchOptions(require=("Haus",))],
)
def test_a_batch_that_nobody_waits_for_is_given_up_before_its_next_step(
    brief: Translator, options: SearchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def should_stop() -> bool:
        asked.append(len(asked))
        return len(asked) == 3

    monkeypatch.setattr(brief.decoder, "should_stop", should_stop)
    with pytest.raises(Stopped):
        brief.search(["old man sees small tree"], options)
    assert asked == [0, 1, 2]


def test_to_be_asked_before_every_step_changes_nothing(brief: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["old man sees small tree", "dog"]
    expected = brief.search(texts)
    monkeypatch.setattr(brief.decoder, "should_stop", lambda: False)
    assert brief.search(texts) == expected
