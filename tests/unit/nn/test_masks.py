"""Masks: True means "may attend"."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from sixfold.nn import causal_mask, local_mask, padding_mask

LENGTHS = st.integers(1, 30)


def test_padding_is_hidden_and_everything_else_is_seen() -> None:
    tokens = torch.tensor([[7, 9, 2, 0], [9, 2, 0, 0]])
    mask = padding_mask(tokens, pad_id=0)
    assert mask.shape == (2, 1, 1, 4)
    assert mask[:, 0, 0].tolist() == [[True, True, True, False], [True, True, False, False]]


@given(LENGTHS)
def test_a_position_sees_itself_and_the_positions_before_it(length: int) -> None:
    mask = causal_mask(length).tolist()
    assert mask == [[j <= i for j in range(length)] for i in range(length)]


@given(LENGTHS, st.integers(0, 40))
def test_restricted_attention_sees_exactly_its_width_to_both_sides(length: int, width: int) -> None:
    mask = local_mask(length, width).tolist()
    assert mask == [[i - width <= j <= i + width for j in range(length)] for i in range(length)]


def test_away_from_the_ends_the_neighbourhood_has_two_widths_and_one_positions() -> None:
    assert local_mask(20, width=3)[3:-3].sum(dim=-1).eq(2 * 3 + 1).all()


def test_the_masks_combine_to_one_for_every_sentence_query_and_key() -> None:
    tokens = torch.tensor([[7, 9, 2, 0], [9, 2, 0, 0]])
    mask = padding_mask(tokens, pad_id=0) & causal_mask(4) & local_mask(4, width=1)
    assert mask.shape == (2, 1, 4, 4)
    assert mask[1, 0].tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [False, True, False, False],
        [False, False, False, False],
    ]
