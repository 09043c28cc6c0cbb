"""Text that grows: whole characters only, and never a part of a stop string."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sixfold.decode.growing_text import GrowingText

signs = st.text("ab .ö日🙂", max_size=30)
stops = st.lists(st.text("ab .ö日🙂", min_size=1, max_size=4), max_size=3)


def pieces(raw: bytes, cuts: list[int]) -> list[bytes]:
    """Cut bytes at some places."""
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    return [raw[low:high] for low, high in itertools.pairwise(edges)]


@given(signs, stops, st.lists(st.integers(0, 90), max_size=20))
def test_what_is_shown_only_grows_and_holds_no_part_of_a_stop_string(
    text: str, stop: list[str], cuts: list[int]
) -> None:
    growing, shown = GrowingText(stop), ""
    parts = pieces(text.encode(), cuts)
    for number, piece in enumerate(parts, start=1):
        growing.add(piece, is_last=number == len(parts))
        assert growing.text.startswith(shown)
        shown = growing.text
        assert text.startswith(shown)
        assert not any(each in shown for each in stop)
        if growing.is_stopped:
            assert any(text.startswith(each, len(shown)) for each in stop)
            return
    assert shown == text


@given(signs, st.lists(st.integers(0, 90), max_size=20))
def test_a_part_of_a_stop_string_is_shown_once_it_cannot_become_one(text: str, cuts: list[int]) -> None:
    growing = GrowingText(["XY"])
    for piece in pieces((text + "X").encode(), cuts):
        growing.add(piece)
    assert growing.text == text
    growing.add(b"Z")
    assert growing.text == text + "XZ"


@given(st.binary(max_size=30), st.lists(st.integers(0, 40), max_size=20))
def test_bytes_that_are_no_text_become_what_they_do_all_at_once(raw: bytes, cuts: list[int]) -> None:
    growing = GrowingText()
    for piece in pieces(raw, cuts):
        growing.add(piece)
    growing.add(b"", is_last=True)
    assert growing.text == raw.decode(errors="replace")


def test_the_space_before_every_text_is_dropped_once() -> None:
    growing = GrowingText(drops_space=True)
    for piece in (b"", b" ", b" a", b" b"):
        growing.add(piece)
    assert growing.text == " a b"
