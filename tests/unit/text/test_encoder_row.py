"""Rows of an encoder: what stands around texts, and what is cut of long ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold.text.encoder_row import RowFormat
from sixfold.text.special import SpecialIds

SPECIAL = SpecialIds(pad=0, bos=1, eos=2, unk=3)


def numbers(count: int, start: int = 10) -> list[int]:
    return list(range(start, start + count))


def test_one_text_stands_between_two_special_tokens() -> None:
    row = RowFormat(SPECIAL, 6).one(numbers(4))
    assert (row.tokens, row.types, row.starts, row.is_cut) == ([1, 10, 11, 12, 13, 2], [0] * 6, (1,), False)


def test_the_end_of_a_long_text_is_not_read_and_that_is_told() -> None:
    row = RowFormat(SPECIAL, 5).one(numbers(4))
    assert (row.tokens, row.is_cut) == ([1, 10, 11, 12, 2], True)


@pytest.mark.parametrize(
    ("separators", "has_segments", "tokens", "types"),
    [
        (1, True, [1, 10, 11, 2, 20, 2], [0, 0, 0, 0, 1, 1]),
        (2, False, [1, 10, 11, 2, 2, 20, 2], [0] * 7),
    ],
)
def test_two_texts_are_separated_as_bert_and_as_roberta_do(
    separators: int, has_segments: bool, tokens: list[int], types: list[int]
) -> None:
    row = RowFormat(SPECIAL, 9, separators, has_segments).two(numbers(2), numbers(1, 20))
    assert (row.tokens, row.types, row.starts) == (tokens, types, (1, 3 + separators))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(4, 40), st.integers(1, 2))
def test_of_two_texts_the_longer_is_cut_first_and_no_room_is_wasted(
    first: int, second: int, most: int, separators: int
) -> None:
    most = max(most, 3 + separators)
    row = RowFormat(SPECIAL, most, separators).two(numbers(first, 100), numbers(second, 200))
    kept = [sum(start <= token < start + 100 for token in row.tokens) for start in (100, 200)]
    assert len(row.tokens) == min(most, first + second + 2 + separators)
    assert row.is_cut == (sum(kept) < first + second)
    assert [row.tokens[start : start + num] for start, num in zip(row.starts, kept, strict=True)] == [
        numbers(kept[0], 100),
        numbers(kept[1], 200),
    ]
    if kept[0] < first and kept[1] < second:
        assert abs(kept[0] - kept[1]) <= 1
    elif kept[0] < first or kept[1] < second:
        cut, whole = (kept[0], kept[1]) if kept[0] < first else (kept[1], kept[0])
        assert cut >= whole - 1
