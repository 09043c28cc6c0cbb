"""Search options: every count has bounds, and what contradicts itself is refused."""

from __future__ import annotations

import math

import pytest

from sixfold.decode.options import BOUNDS, SearchOptions
from sixfold.errors import ConfigError


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("wrong", [-1, 10**30, math.nan, -math.inf, math.inf])
def test_every_number_has_bounds_that_are_told(name: str, wrong: float) -> None:
    low, high = BOUNDS[name]
    with pytest.raises(ConfigError, match=f"{name} must be from {low:,} to {high:,}"):
        SearchOptions(**{name: wrong})


@pytest.mark.parametrize(
    "wish",
    [
        {"beam": 0}, {"beam": 10**9}, {"n_best": 0}, {"n_best": 10**9}, {"length_penalty": 1e9}, {"sample": 0},
        {"sample": 1.0, "top_p": 0.0}, {"sample": 1.0, "top_p": 1.1}, {"sample": 1.0, "top_k": 0},
        {"no_repeat": 0}, {"max_length": 0},
    ],
)  # fmt: skip
def test_a_number_out_of_bounds_is_refused(wish: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must be from"):
        SearchOptions(**wish)


@pytest.mark.parametrize(
    "wish",
    [
        {"sample": 1.0, "beam": 4},
        {"sample": 1.0, "require": ("dog",)},
        {"require": ("dog",), "no_repeat": 3},
        {"top_k": 5},
        {"top_p": 0.5},
        {"seed": 1},
        {"min_length": 5, "max_length": 4},
        {"prefix": "The dog", "forbid": ("dog",)},
        {"require": ("a small dog",), "forbid": ("small dog",)},
    ],
)
def test_what_contradicts_itself_is_refused(wish: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        SearchOptions(**wish)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["require", "forbid"])
@pytest.mark.parametrize("wrong", ["dog", ("",), (" ",), ("a\nb",), ("\ud800",), ("x" * 201,), ("x",) * 65])
def test_phrases_are_a_few_texts_of_one_line(name: str, wrong: object) -> None:
    with pytest.raises(ConfigError):
        SearchOptions(**{name: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["a\nb", " ", "\udcff", "x" * 201])
def test_a_prefix_is_a_text_of_one_line(wrong: str) -> None:
    with pytest.raises(ConfigError):
        SearchOptions(prefix=wrong)


def test_what_may_go_together_does() -> None:
    SearchOptions(sample=0.7, beam=1, n_best=5, top_k=10, top_p=0.9, seed=0, forbid=("dog",), prefix="A dogs")
    SearchOptions(beam=8, n_best=4, require=("hotdog",), forbid=("dog",), min_length=3, max_length=3)
    assert SearchOptions(forbid=[" dog ", "dog"]).forbid == ("dog",)  # type: ignore[arg-type]
