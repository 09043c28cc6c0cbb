"""Where the tokens of a lossless tokenizer stand in the raw text: what they spell tells it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

Span = tuple[int, int]  # the first character, and the one behind the last


def token_spans(text: str, spelled: Sequence[bytes], space_before: bool) -> list[Span]:
    """Return which characters each token is, given the bytes that the tokens spell, in order.

    A token that spells a part of a character is that character. Space around a word is no part of its span.
    """
    owners = [index for index, sign in enumerate(text) for _ in range(len(sign.encode()))]
    ends = list(accumulate(map(len, spelled), initial=-1 if space_before and text else 0))
    spans = []
    for begin, end in pairwise(ends):
        owned = owners[max(begin, 0) : end]
        spans.append(trimmed(text, owned[0], owned[-1] + 1) if owned else (0, 0))
    return spans


def trimmed(text: str, start: int, end: int) -> Span:
    """Return a span without space around it; one of nothing but space is kept."""
    inside = text[start:end]
    if not inside or inside.isspace():
        return start, end
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
