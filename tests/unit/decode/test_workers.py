"""Several processes: the same translations in the same order, and never a wait without end."""

from __future__ import annotations

import os
import signal
import time

import pytest

from sixfold.decode import translate as module
from sixfold.decode.options import SearchOptions
from sixfold.decode.translate import Translator
from sixfold.errors import WorkError

TEXTS = ["old man", "the dog sees", "small house and tree", "blue", "", "old tree", "woman paints a window"] * 6


@pytest.fixture
def shared(trained: Translator, monkeypatch: pytest.MonkeyPatch):  # noqa: ANN201
    """Return a translator of two processes, with batches so small that both have work."""
    monkeypatch.setattr(module, "BATCH_TOKENS", 64)
    translator = Translator(trained.model, trained.tokenizer, trained.decode, num_workers=2)
    yield translator
    if translator.running:
        translator.running.close()


def test_two_processes_find_what_one_finds_in_the_same_order(shared: Translator, trained: Translator) -> None:
    ticks: list[int] = []
    assert shared.search(TEXTS, tick=ticks.append) == trained.search(TEXTS)
    assert ticks[-1] == sum(map(bool, TEXTS))
    [child] = shared.workers.children
    assert shared.search(TEXTS, SearchOptions(n_best=3)) == trained.search(TEXTS, SearchOptions(n_best=3))
    assert shared.workers.children == [child], "it was started once"
    draws = SearchOptions(sample=1.0, n_best=2, seed=5)
    assert shared.search(TEXTS, draws) == trained.search(TEXTS, draws)


def test_a_few_texts_stay_in_this_process(shared: Translator) -> None:
    shared.translate(["old man", "blue"])
    assert shared.running is None


def test_a_process_that_dies_is_an_error_and_the_next_search_starts_another(
    shared: Translator, trained: Translator
) -> None:
    shared.search(TEXTS)
    [child] = shared.workers.children
    os.kill(child.process.pid, signal.SIGKILL)
    begun = time.monotonic()
    with pytest.raises(WorkError, match="exit code -9"):
        shared.search(TEXTS)
    assert time.monotonic() - begun < 20
    assert shared.search(TEXTS) == trained.search(TEXTS)


def test_closing_leaves_no_process_behind(shared: Translator) -> None:
    shared.search(TEXTS)
    [child] = shared.workers.children
    shared.workers.close()
    assert child.process.returncode is not None
