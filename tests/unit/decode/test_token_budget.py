"""Batches within a token budget: every text once, longest first, in linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold.decode import token_budget
from sixfold.decode.engine import padded_length
from sixfold.decode.token_budget import FEWEST_TEXTS, of_any_length, of_one_length

LENGTHS = [3, 0, 7, 200, 1, 1, 12, 0, 7, 5]
Ways = Callable[[Sequence[int], int], Iterator[list[int]]]


def alone(lengths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Batch texts of any lengths for one process."""
    return of_any_length(lengths, width, 1)


every_way = pytest.mark.parametrize("batches_of", [alone, of_one_length])


@every_way
def test_batches_hold_every_text_once_longest_first_within_the_budget(
    batches_of: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_budget, "BATCH_TOKENS", 100)
    batches = list(batches_of(LENGTHS, 4))
    assert sorted(i for batch in batches for i in batch) == [0, 2, 3, 4, 5, 6, 8, 9]
    assert [LENGTHS[i] for batch in batches for i in batch] == [200, 12, 7, 7, 5, 3, 1, 1]
    assert all(len(batch) == 1 or len(batch) * (LENGTHS[batch[0]] + 1) * 4 <= 100 for batch in batches)


@given(lengths=st.lists(st.integers(0, 60), max_size=300), width=st.integers(1, 8))
def test_texts_of_one_batch_are_padded_to_one_length(lengths: list[int], width: int) -> None:
    for batch in of_one_length(lengths, width):
        assert len({padded_length(lengths[i] + 1) for i in batch}) == 1


@given(lengths=st.lists(st.integers(0, 60), max_size=900), num_workers=st.integers(2, 8))
def test_several_workers_get_several_batches_each_unless_these_were_small(
    lengths: list[int], num_workers: int
) -> None:
    batches = list(of_any_length(lengths, 1, num_workers))
    count = sum(map(bool, lengths))
    assert sorted(i for batch in batches for i in batch) == [i for i, length in enumerate(lengths) if length]
    assert all(len(batch) <= max(FEWEST_TEXTS, -(-count // num_workers)) for batch in batches)


class Counted(Sequence[int]):
    """Very many texts of one length, which count how often they are looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, place: int) -> int:
        if not 0 <= place < len(self):
            raise IndexError(place)
        self.looks += 1
        return 30


@every_way
def test_very_many_texts_are_batched_with_a_few_looks_at_each(batches_of: Ways) -> None:
    lengths = Counted()
    assert sum(map(len, batches_of(lengths, 4))) == len(lengths)
    assert lengths.looks <= 3 * len(lengths)
