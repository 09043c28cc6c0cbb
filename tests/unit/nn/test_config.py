"""The definition of layers: what follows from it and what it refuses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sixfold.errors import ConfigError
from sixfold.nn import BlockConfig
from sixfold.nn.config import nearest_divisor


def test_the_defaults_are_the_layers_of_the_papers_base_model() -> None:
    block = BlockConfig()
    assert (block.d_model, block.d_ff, block.heads, block.dropout) == (512, 2048, 8, 0.1)
    assert (block.norm, block.norm_kind, block.activation, block.gated) == ("post", "layer", "relu", False)
    assert (block.attention_bias, block.feed_forward_bias) == (False, True)
    assert block.head_widths == (64, 64)
    assert block.query_divisor == math.sqrt(64)


@pytest.mark.parametrize(
    ("d_k", "d_v", "widths"), [(0, 0, (4, 4)), (3, 0, (3, 4)), (0, 9, (4, 9)), (7, 2, (7, 2))]
)
def test_each_width_of_a_head_is_as_stated_or_d_model_over_heads(
    d_k: int, d_v: int, widths: tuple[int, int]
) -> None:
    block = BlockConfig(d_model=12, heads=3, d_k=d_k, d_v=d_v)
    assert block.head_widths == widths
    assert block.query_divisor == math.sqrt(widths[0])


def test_a_stated_scale_of_the_scores_is_one_over_what_they_are_divided_by() -> None:
    assert BlockConfig(score_scale=0.25).query_divisor == 4.0


def test_heads_that_do_not_divide_are_refused_with_the_nearest_that_do() -> None:
    with pytest.raises(ConfigError, match="d_model=512, heads=7 leaves 1 over") as refusal:
        BlockConfig(heads=7)
    assert "heads=8" in refusal.value.hint


def test_heads_need_not_divide_when_both_widths_are_given() -> None:
    assert BlockConfig(heads=7, d_k=64, d_v=64).heads == 7
    for only in ({"d_k": 64}, {"d_v": 64}):
        with pytest.raises(ConfigError):
            BlockConfig(heads=7, **only)


def test_key_value_heads_that_cannot_be_shared_evenly_are_refused_with_the_nearest_that_can() -> None:
    with pytest.raises(ConfigError, match="heads=8, key_value_heads=3") as refusal:
        BlockConfig(key_value_heads=3)
    assert "key_value_heads=2" in refusal.value.hint


@pytest.mark.parametrize(
    "choices",
    [
        {"layers": 6},
        {"norm": "middle"},
        {"norm_kind": "batch"},
        {"activation": "tanh"},
        {"norm_epsilon": 0.0},
        {"dropout": 0.9999999999},
        {"dropout": float("nan")},
    ],
    ids=str,
)
def test_an_unknown_key_or_an_impossible_value_is_refused(choices: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BlockConfig.model_validate(choices)


@given(st.integers(1, 2000), st.integers(1, 256))
def test_the_nearest_divisor_divides_and_none_is_nearer(number: int, wish: int) -> None:
    nearest = nearest_divisor(number, wish)
    assert number % nearest == 0
    distance = abs(nearest - wish)
    assert not any(number % d == 0 and abs(d - wish) < distance for d in range(1, number + 1))
