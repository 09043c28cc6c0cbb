"""Where words and tokens stand in a text, in characters.

A word is a run of letters, marks and digits; every other character that is not a space stands alone, and so
does every character of a script that is written without spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

Span = tuple[int, int]  # first character, and the one after the last

BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
WITHOUT_SPACES = (  # scripts: first and last character
    ("\u0e00", "\u0eff"),  # Thai, Lao
    ("\u1000", "\u109f"),  # Burmese
    ("\u1780", "\u17ff"),  # Khmer
    ("\u3040", "\u30ff"),  # Hiragana, Katakana
    ("\u3400", "\u9fff"),  # Han
    ("\uf900", "\ufaff"),  # Han, again
    ("\U00020000", "\U0003ffff"),  # Han, rare
)


@dataclass(frozen=True)
class Link:
    """Two words that belong together, as characters of the source and of the translation."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    weight: float  # the share of the target word's attention, from 0 to 1


def words(text: str) -> list[Span]:
    """Return where the words of a text stand."""
    found: list[Span] = []
    for (kind, _), characters in groupby(enumerate(text), key=lambda item: kind_of(*item)):
        if kind != "space":
            places = [place for place, _ in characters]
            found.append((places[0], places[-1] + 1))
    return found


def kind_of(place: int, character: str) -> tuple[str, int]:
    """Return whether a character is a space, goes on with a word, or stands alone (then with its own place)."""
    if character.isspace():
        return "space", 0
    if any(first <= character <= last for first, last in WITHOUT_SPACES):
        return "alone", place
    category = unicodedata.category(character)
    return ("word", 0) if category[0] in "LMN" or character in "_\u200c\u200d" else ("alone", place)


def token_spans(pieces: Sequence[str]) -> list[Span]:
    """Return where each piece stands in the text that `Tokenizer.decode` makes of all of them.

    The space that begins a word is not part of the piece's span. All bytes of a character share its span.
    """
    spans: list[Span] = []
    place: int | None = None
    for text, num_pieces in decoded(pieces):
        is_after_space = text.startswith(" ")
        if place is None and text:
            place = -1 if is_after_space else 0  # `decode` takes the first space away
        start = (place or 0) + is_after_space
        place = (place or 0) + len(text)
        spans += [(start, place)] * num_pieces
    return spans


def decoded(pieces: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the text of each piece, or of each few byte pieces that are one character, and how many these are."""
    for is_byte, run in groupby(pieces, key=lambda piece: BYTE_PIECE.fullmatch(piece) is not None):
        if is_byte:
            yield from characters_of(bytes(int(piece[3:5], 16) for piece in run))
        else:
            yield from ((piece.replace("\u2581", " "), 1) for piece in run)


def characters_of(content: bytes) -> Iterator[tuple[str, int]]:
    """Yield the characters of bytes with the number of their bytes; each byte that is in none becomes U+FFFD."""
    place = 0
    while place < len(content):
        for size in (1, 2, 3, 4):
            try:
                yield content[place : place + size].decode(), size
                break
            except UnicodeDecodeError:
                continue
        else:
            size = 1
            yield "\ufffd", 1
        place += size
