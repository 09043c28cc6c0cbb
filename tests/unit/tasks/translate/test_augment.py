"""Augmentation: pairs in the reverse direction or concatenated, as a seed decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sixfold
from sixfold.tasks.translate import augment as module
from sixfold.tasks.translate.augment import IdPair, IdPairs, concatenate, reverse_some
from sixfold.text import SpecialIds

BEGIN, REVERSE = SpecialIds().bos, SpecialIds().reverse
SETTINGS = (
    "model.layers=1", "model.d_model=16", "model.heads=2", "model.d_ff=16",
    "data.vocabulary=290", "data.valid_pairs=5", "train.batch_tokens=64", "train.valid_sentences=1",
    "train.steps=20", "train.checkpoint_every=20", "train.warmup_steps=2",
)  # fmt: skip


def pair(source: list[int], target: list[int]) -> IdPair:
    """Return a pair in the usual direction."""
    return IdPair(source, target, BEGIN)


def test_a_share_of_the_pairs_is_reversed_and_marked_and_each_stays_in_its_place() -> None:
    def reversed_with(seed: int) -> IdPairs:
        return reverse_some(ids, 0.3, REVERSE, np.random.default_rng(seed))

    ids = [pair([number], [-number]) for number in range(1, 1001)]
    found = reversed_with(7)
    assert all(new in (old, IdPair(old.target, old.source, REVERSE)) for new, old in zip(found, ids, strict=True))
    assert sum(each.begin == REVERSE for each in found) == pytest.approx(300, abs=80)
    assert found == reversed_with(7) != reversed_with(8)


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_a_training_reverses_the_share_of_the_pairs_that_was_asked_for(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[IdPairs] = []
    reverse: Callable[..., IdPairs] = reverse_some

    def remember(*arguments: object) -> IdPairs:
        found.append(reverse(*arguments))
        return found[-1]

    monkeypatch.setattr(module, "reverse_some", remember)
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("".join(f"{side} {number}\n" for number in range(40)))
    files = (tmp_path / "train.en", tmp_path / "train.de")
    sixfold.train(*files, tmp_path / "model", settings=[*SETTINGS, f"train.both_ways={share}"])
    assert len(found) == (20 if share else 0)
    marks = [each.begin == REVERSE for ids in found for each in ids]
    assert sum(marks) == pytest.approx(share * len(marks), abs=0.2 * len(marks) * (share == 0.5))


def test_pairs_are_concatenated_on_both_sides() -> None:
    ids = [pair([1], [11, 12]), pair([2, 3], [13]), pair([4], [14]), pair([5], [15]), pair([6], [])]
    assert concatenate(ids, 2, 8) == [pair([1, 5], [11, 12, 15]), pair([2, 3, 6], [13]), pair([4], [14])]
    assert concatenate(ids, 5, 10) == [pair([1, 2, 3, 4, 5, 6], [11, 12, 13, 14, 15])]


some_tokens = st.lists(st.integers(5, 9), max_size=6)


@given(
    ids=st.lists(st.builds(pair, some_tokens, some_tokens), min_size=1),
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
