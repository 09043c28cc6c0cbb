"""Several processes: the same translations in the same order, and never a wait without end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from sixfold.decode import translate as module
from sixfold.decode.options import SearchOptions
from sixfold.decode.search import Hypothesis
from sixfold.decode.translate import Translator
from sixfold.decode.workers import Batch, Child
from sixfold.errors import WorkError

TEXTS = ["old man", "the dog sees", "small house and tree", "blue", "", "old tree", "woman paints a window"] * 6


@pytest.fixture
def shared(trained: Translator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Translator]:
    """Return a translator of two processes, with batches so small that both have work."""
    monkeypatch.setattr(module, "BATCH_TOKENS", 64)
    translator = Translator(trained.model, trained.tokenizer, trained.decode, num_workers=2)
    yield translator
    if translator.running:
        translator.running.close()


def wait_for_child(translator: Translator) -> Child:
    """Return the other process when it is ready."""
    [child] = translator.workers.children
    begun = time.monotonic()
    while not child.is_ready:
        assert time.monotonic() - begun < 60
        time.sleep(0.05)
    return child


def test_two_processes_find_what_one_finds_in_the_same_order(
    shared: Translator, trained: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: list[int] = []
    assert shared.search(TEXTS, tick=ticks.append) == trained.search(TEXTS)
    assert ticks[-1] == sum(map(bool, TEXTS))
    child, ours = wait_for_child(shared), []
    search_ids = Translator.search_ids

    def slowly(self: Translator, batch: Batch) -> list[list[Hypothesis]]:
        time.sleep(0.1)  # so that the other process gets its share
        ours.append(batch)
        return search_ids(self, batch)

    for options in (SearchOptions(n_best=3), SearchOptions(sample=1.0, n_best=2, seed=5)):
        expected = trained.search(TEXTS, options)
        with monkeypatch.context() as patch:
            patch.setattr(Translator, "search_ids", slowly)
            assert shared.search(TEXTS, options) == expected
    lengths = list(map(len, shared.tokenizer.encode_batch(TEXTS)))
    assert 0 < len(ours) < sum(1 for width in (3, 2) for _ in shared.batches(lengths, width))
    assert shared.workers.children == [child], "it was started once"


def test_a_few_texts_stay_in_this_process(shared: Translator) -> None:
    shared.translate(["old man", "blue"])
    assert shared.running is None


def test_a_process_that_dies_is_an_error_and_the_next_search_starts_another(
    shared: Translator, trained: Translator
) -> None:
    shared.search(TEXTS)
    child = wait_for_child(shared)
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
