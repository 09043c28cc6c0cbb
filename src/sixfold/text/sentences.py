"""Split texts into sentences; every space is kept, so joining the pieces always gives the text.

Every line break ends a sentence; inside a line, sentencex applies the rules of the language. A sentence that is
too long for the model is cut in half, at the end of a clause nearest to the middle, or else at a space, or
anywhere.
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
    """A piece of a text: a sentence or a part of one, or the spacing between two."""

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
    """Yield the sentences of a line, each with the spacing after it.

    sentencex gets a window at a time, because its time is quadratic for some texts. The last sentence of a window
    may be incomplete, so the next window begins with it.
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
    """Yield a sentence and the spacing before and after it, without empty pieces."""
    text = sentence.strip()
    start = sentence.find(text)
    parts = (sentence[:start], text, sentence[start + len(text) :])
    yield from (Segment(part, not part.isspace()) for part in parts if part)


def cut_to_fit(text: str, fits: Callable[[str], bool]) -> list[Segment]:
    """Cut a sentence into parts that fit, with the spacing between them."""
    if len(text) <= 1 or fits(text):
        return list(trimmed(text))
    middle = place_to_cut(text)
    return cut_to_fit(text[:middle], fits) + cut_to_fit(text[middle:], fits)


def place_to_cut(text: str) -> int:
    """Return where to cut a text: near its middle after a clause, or else after a space, or in the middle."""
    middle, reach = len(text) // 2, len(text) // 4
    for pattern in (CLAUSE_ENDS, SPACES):
        ends = [match.end() for match in pattern.finditer(text, middle - reach, middle + reach)]
        inside = [end for end in ends if 0 < end < len(text)]
        if inside:
            return min(inside, key=lambda end: abs(end - middle))
    return middle
