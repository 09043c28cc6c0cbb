"""The positions of words and tokens in a text, in characters.

A word is a run of letters, combining marks and digits. Every other character that is not a space is a word by
itself, and so is every letter, with its marks, of a script that is written without spaces.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sixfold.text.scripts import script_without_spaces

Span = tuple[int, int]  # first character, and the one after the last

JOINERS = "_\u200c\u200d"


@dataclass(frozen=True)
class Link:
    """Two aligned words, as character ranges of the source and of the translation."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    weight: float  # the fraction of the target word's attention, from 0 to 1


def words(text: str) -> list[Span]:
    """Return the positions of the words of a text."""
    found: list[Span] = []
    for place, character in enumerate(text):
        if found and found[-1][1] == place and not is_boundary(text[place - 1], character):
            found[-1] = (found[-1][0], place + 1)
        elif not character.isspace():
            found.append((place, place + 1))
    return found


def occurs(phrase: str, text: str) -> bool:
    """Return whether a phrase occurs in a text as whole words; case matters.

    "dog" occurs in "the dog." but not in "dogs" or "hotdog".
    """
    start = text.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        begins_word = start == 0 or is_boundary(text[start - 1], phrase[0])
        ends_word = end == len(text) or is_boundary(phrase[-1], text[end])
        if begins_word and ends_word:
            return True
        start = text.find(phrase, start + 1)
    return False


def is_boundary(left: str, right: str) -> bool:
    """Return whether a word may end between two adjacent characters."""
    if script_without_spaces(left) is not None and script_without_spaces(right) is not None:
        return not is_mark(right)
    return not joins(left, right)


def joins(left: str, right: str) -> bool:
    """Return whether two adjacent characters belong to the same word."""
    return is_of_a_word(left) and is_of_a_word(right)


def is_of_a_word(character: str) -> bool:
    """Return whether a character continues a word: letters, digits and marks of scripts written with spaces."""
    is_letter = unicodedata.category(character)[0] in "LMN" or character in JOINERS
    return is_letter and script_without_spaces(character) is None


def is_mark(character: str) -> bool:
    """Return whether a character combines with the one before it: a vowel sign, a tone, an accent."""
    return unicodedata.category(character)[0] == "M"


def token_spans(spelled: Sequence[bytes], drops_space: bool) -> list[Span]:
    """Return the position of each token in the text that all of them spell together.

    The space that begins a token is not part of its span; `drops_space` says that the text has lost a first one.
    All tokens of a character share its span.
    """
    content = b"".join(spelled)
    number: list[int] = []  # of the character that each byte is part of
    for place, (_, size) in enumerate(characters_of(content)):
        number += [place] * size
    number.append(number[-1] + 1 if number else 0)  # where a token without bytes stands that is last
    shift = drops_space and content.startswith(b" ")
    spans: list[Span] = []
    begin = 0
    for raw in spelled:
        end = begin + len(raw)
        last = number[end - 1] + 1 if raw else number[begin]
        spans.append((max(0, number[begin] + raw.startswith(b" ") - shift), max(0, last - shift)))
        begin = end
    return spans


def characters_of(content: bytes) -> Iterator[tuple[str, int]]:
    """Yield the characters of bytes, each with its number of bytes; an invalid byte becomes U+FFFD."""
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
