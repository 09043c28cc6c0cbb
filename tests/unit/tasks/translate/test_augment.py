"""Augmentation: pairs are concatenated, as a seed decides."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sixfold.tasks.translate.augment import IdPair, IdPairs, augment, concatenate
from sixfold.tasks.translate.recipe import DataConfig


def test_pairs_are_concatenated_on_both_sides() -> None:
    ids = [IdPair([1], [11, 12]), IdPair([2, 3], [13]), IdPair([4], [14]), IdPair([5], [15]), IdPair([6], [])]
    assert concatenate(ids, 2, 8) == [IdPair([1, 5], [11, 12, 15]), IdPair([2, 3, 6], [13]), IdPair([4], [14])]
    assert concatenate(ids, 5, 10) == [IdPair([1, 2, 3, 4, 5, 6], [11, 12, 13, 14, 15])]


some_tokens = st.lists(st.integers(5, 9), max_size=6)


@given(
    ids=st.lists(st.builds(IdPair, some_tokens, some_tokens), min_size=1),
    count=st.integers(2, 4),
    limit=st.integers(0, 30),
)
def test_concatenating_loses_nothing_and_makes_nothing_too_long(ids: IdPairs, count: int, limit: int) -> None:
    longer = concatenate(ids, count, limit)
    for side in (0, 1):
        assert sorted(token for each in longer for token in each[side]) == sorted(
            token for each in ids for token in each[side]
        )
    if longer != ids:
        assert len(longer) == -(-len(ids) // count)
        assert max(max(len(each.source), len(each.target)) for each in longer) <= limit


def test_as_many_batches_are_concatenated_as_the_recipe_says_and_the_seed_decides_which() -> None:
    ids = [IdPair([number], [number, number]) for number in range(1, 7)]

    def changed(fraction: float) -> list[bool]:
        return [augment(ids, DataConfig(concatenate=fraction), seed) != ids for seed in range(400)]

    assert (sum(changed(0.0)), sum(changed(1.0))) == (0, 400)
    assert 100 < sum(changed(0.4)) < 220
    assert changed(0.4) == changed(0.4)
