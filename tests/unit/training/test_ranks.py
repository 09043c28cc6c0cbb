"""Which rank trains on which rows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.training.ranks import Ranks, joined_ranks


@settings(max_examples=100)
@given(st.integers(0, 70), st.integers(1, 5), st.integers(1, 5))
def test_every_row_falls_to_exactly_one_rank_and_part(num_rows: int, world: int, parts: int) -> None:
    shares = [Ranks(rank, world).share(num_rows, part, parts) for rank in range(world) for part in range(parts)]
    assert sorted(row for share in shares for row in share) == list(range(num_rows))


@settings(max_examples=100)
@given(st.integers(0, 70), st.integers(1, 5), st.integers(1, 5))
def test_shares_differ_by_at_most_one_row(num_rows: int, world: int, parts: int) -> None:
    sizes = [
        len(Ranks(rank, world).share(num_rows, part, parts)) for rank in range(world) for part in range(parts)
    ]
    assert max(sizes) - min(sizes) <= 1


def test_one_process_is_the_first_and_agrees_with_itself() -> None:
    with joined_ranks() as ranks:
        assert ranks == Ranks()
        assert ranks.is_first
        assert (ranks.total(2.5), ranks.agree(3.5)) == (2.5, 3.5)
        ranks.wait()
