"""The sample: uniform, the same for the same seed, and the texts come back as they were."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data.formats import Pair
from sixfold.data.reservoir import Reservoir

texts = st.text(st.characters(), max_size=8)  # surrogates too


def sampled(pairs: list[Pair], most: int, seed: int = 1) -> list[Pair]:
    """Return what a sample keeps of the pairs."""
    sample = Reservoir(most, seed)
    for pair in pairs:
        sample.offer(pair)
    assert len(sample) == min(most, len(pairs)) == len([*sample])
    return [*sample]


def numbered(count: int) -> list[Pair]:
    """Return that many different pairs."""
    return [Pair(f"source {number}", f"Ziel {number}", number) for number in range(count)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.builds(Pair, texts, texts, st.integers(1, 2**62)), max_size=30), st.integers(1, 40))
def test_what_is_kept_was_offered_and_is_as_it_was(pairs: list[Pair], most: int) -> None:
    kept = sampled(pairs, most)
    assert not Counter(kept) - Counter(pairs)
    if len(pairs) <= most:
        assert kept == pairs


def test_every_pair_has_the_same_chance(seed: int) -> None:
    kept = Counter(pair.line for run in range(2000) for pair in sampled(numbered(20), 5, seed + run))
    assert len(kept) == 20
    assert all(380 < count < 630 for count in kept.values())  # 500 expected; 6 standard deviations


def test_the_same_seed_keeps_the_same_pairs(seed: int) -> None:
    assert sampled(numbered(300), 20, seed) == sampled(numbered(300), 20, seed)
    assert sampled(numbered(300), 20, seed) != sampled(numbered(300), 20, seed + 1)


def test_memory_does_not_grow_with_the_pairs_offered() -> None:
    sample, most = Reservoir(most=100, seed=1), 0
    for number in range(5000):
        sample.offer(Pair(f"{number} " + "a" * 20_000, "b", number))
        most = max(most, len(sample.texts))
    assert most < 2 * 100 * 20_010 + 2**20 + 20_010
    assert all(pair.source.startswith(f"{pair.line} ") for pair in sample)
