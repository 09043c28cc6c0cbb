"""Texts as parts: sentences to translate, and what is kept as it is between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sixfold.text.sentences import Segment, cut_to_fit, split_sentences

Fits = Callable[[str], bool]


def unchanged(text: str) -> str:
    """Return the text."""
    return text


@dataclass(frozen=True)
class Part:
    """A sentence, or the text between two sentences."""

    text: str  # as it is in the document
    given: str = ""  # to the model; empty if the part is not translated
    finish: Callable[[str], str] = unchanged  # turns the translation into what the document gets


def segments_of(text: str, language: str, fits: Fits) -> Iterator[Segment]:
    """Yield the sentences of a text, long ones in parts, and the spacing between them."""
    for segment in split_sentences(text, language):
        yield from cut_to_fit(segment.text, fits) if segment.is_sentence else [segment]


def has_words(text: str) -> bool:
    """Whether there is anything to translate: letters or digits."""
    return any(sign.isalnum() for sign in text)


def plain_parts(text: str, language: str, fits: Fits) -> list[Part]:
    """Return the parts of a plain text."""
    return [
        Part(segment.text, segment.text if segment.is_sentence and has_words(segment.text) else "")
        for segment in segments_of(text, language, fits)
    ]
