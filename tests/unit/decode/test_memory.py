"""Memory that runs out: the batch is halved and the work goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from sixfold.decode.memory import in_halves
from sixfold.decode.search import Stepper
from sixfold.decode.translate import Translator
from sixfold.errors import WorkError
from sixfold.machine import is_out_of_memory


def room_for(most: int, sizes: list[int], error: Exception) -> Callable[[Sequence[int]], list[int]]:
    """Return work that has room for so many items at once."""

    def work(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        if len(items) > most:
            raise error
        return [item * item for item in items]

    return work


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("x"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_what_does_not_fit_is_done_in_halves_and_in_order(error: Exception) -> None:
    sizes: list[int] = []
    assert in_halves(room_for(3, sizes, error), range(11)) == [i * i for i in range(11)]
    assert max(size for size in sizes if size <= 3) == 3
    assert sizes[0] == 11


def test_another_error_is_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        in_halves(room_for(3, [], RuntimeError("shapes differ")), range(11))
    assert not is_out_of_memory(ValueError("no"))


def test_one_sentence_without_room_is_an_error_with_advice() -> None:
    with pytest.raises(WorkError, match="not enough memory") as caught:
        in_halves(room_for(0, [], MemoryError()), range(4))
    assert "beam" in caught.value.hint


def test_texts_are_translated_the_same_when_memory_runs_out(
    trained: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["old man", "the dog sees", "small house and tree", "blue", "old tree", "woman paints"] * 3
    expected = trained.search(texts)
    engine, sizes = trained.decoder.engine, []
    start = engine.start

    def crowded(sources: list[list[int]], prompts: list[list[int]]) -> Stepper:
        sizes.append(len(sources))
        if len(sources) > 4:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes")
        return start(sources, prompts)

    monkeypatch.setattr(engine, "start", crowded)
    assert trained.search(texts) == expected
    assert max(sizes) > 4
