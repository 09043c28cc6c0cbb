"""Texts as sentences, with every space kept: the pieces together are always the text itself.

Every line break ends a sentence; inside a line, sentencex finds the ends by the rules of the language. What is too
long for a model is cut into halves, at the end of a clause nearest to the middle, or else at a space, or anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sixfold.errors import MissingExtraError

LINES = re.compile(r"[^\n]+|\n+")
CLAUSE_ENDS = re.compile(r"(?<=[,;:–—)\]，；：、。！？])(?!\d)\s*+|(?<=[.!?…])\s++")
SPACES = re.compile(r"\s++")
WINDOW = 2000  # characters


@dataclass(frozen=True)
class Segment:
    """A stretch of a text: a sentence or a part of one, or the spacing between two."""

    text: str
    is_sentence: bool


def split_sentences(text: str, language: str) -> list[Segment]:
    """Return the sentences of a text and the spacing around them, in order."""
    return [
        segment
        for line in LINES.findall(text)
        for sentence in sentences_of_line(line, language)
        for segment in trimmed(sentence)
    ]


def sentences_of_line(line: str, language: str) -> Iterator[str]:
    """Yield the sentences of a line, each with the spacing behind it.

    sentencex sees a window at a time, because some texts take it the square of their length. The last sentence of
    a window may go on, so the next window begins with it.
    """
    start = 0
    while start < len(line):
        found = sentences_of_window(line[start : start + WINDOW], language)
        if len(found) > 1 and start + WINDOW < len(line):
            found.pop()
        yield from found
        start += sum(map(len, found))


def sentences_of_window(line: str, language: str) -> list[str]:
    """Return the sentences of a short line."""
    try:
        import sentencex
    except ImportError as error:
        raise MissingExtraError("sentencex", "serve", "Splitting text into sentences") from error
    if not line.strip():
        return [line]
    found = list(sentencex.segment(language, line))
    return found if "".join(found) == line else [line]  # whatever its rules, no character is lost


def trimmed(sentence: str) -> Iterator[Segment]:
    """Yield a sentence and the spacing before and after it, leaving out what is empty."""
    text = sentence.strip()
    start = sentence.find(text)
    parts = (sentence[:start], text, sentence[start + len(text) :])
    yield from (Segment(part, not part.isspace()) for part in parts if part)


def cut_to_fit(text: str, fits: Callable[[str], bool]) -> list[Segment]:
    """Return a sentence in parts that fit, with the spacing between them."""
    if len(text) <= 1 or fits(text):
        return list(trimmed(text))
    middle = place_to_cut(text)
    return cut_to_fit(text[:middle], fits) + cut_to_fit(text[middle:], fits)


def place_to_cut(text: str) -> int:
    """Return the end of a clause nearest to the middle, or of a word, if one is in the middle half of a text."""
    middle, reach = len(text) // 2, len(text) // 4
    for pattern in (CLAUSE_ENDS, SPACES):
        ends = [match.end() for match in pattern.finditer(text, middle - reach, middle + reach)]
        inside = [end for end in ends if 0 < end < len(text)]
        if inside:
            return min(inside, key=lambda end: abs(end - middle))
    return middle
