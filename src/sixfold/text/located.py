"""The positions of a lossless tokenizer's tokens in the raw text, derived from the bytes of the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

Span = tuple[int, int]  # first character, and the one after the last


def token_spans(text: str, spelled: Sequence[bytes], space_before: bool) -> list[Span]:
    """Return which characters each token covers, given the bytes of the tokens in order.

    A token that is a part of a character covers that character. Space around a word is not part of its span.
    """
    owners = [index for index, sign in enumerate(text) for _ in range(len(sign.encode()))]
    ends = list(accumulate(map(len, spelled), initial=-1 if space_before and text else 0))
    spans = []
    for begin, end in pairwise(ends):
        owned = owners[max(begin, 0) : end]
        spans.append(trimmed(text, owned[0], owned[-1] + 1) if owned else (0, 0))
    return spans


def trimmed(text: str, start: int, end: int) -> Span:
    """Return a span without the space around it; a span of nothing but space is kept."""
    inside = text[start:end]
    if not inside or inside.isspace():
        return start, end
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
