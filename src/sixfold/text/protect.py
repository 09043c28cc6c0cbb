"""Protected spans: addresses, placeholders and inline tags come out of a translation exactly as they went in.

Tags never reach the model: they are removed, and put back around the translations of the words they enclosed.
All other spans are left to the model; if it loses or changes one, the text is translated again with them as
required phrases, and if that fails too, they are removed and put back like tags. Whatever the model does, every
span of the source occurs in the result exactly as often, and tags stay nested as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sixfold.text.put_back import put_back
from sixfold.text.spans import Stripped, spans_of, survives, take_out, without
from sixfold.text.tags import is_tag
from sixfold.text.words import Link

Translate = Callable[
    [Sequence[str], Sequence[tuple[str, ...]]], list[str]
]  # texts, and the phrases that each translation must contain
Align = Callable[[Sequence[str], Sequence[str]], list[list[Link]]]


@dataclass(frozen=True)
class Protected:
    """A translation whose spans survived, and the text that the model was given for it."""

    text: str
    given: str


def protect(texts: Sequence[str], translate: Translate, align: Align) -> list[Protected]:
    """Translate texts so that their spans survive."""
    stripped = [take_out(text, is_tag) for text in texts]
    found = translate([each.text for each in stripped], [()] * len(texts))
    lost = lost_spans(stripped, found)
    required = [tuple(dict.fromkeys(spans_of(stripped[i].text))) for i in lost]
    replace_at(found, lost, translate([stripped[i].text for i in lost], required) if lost else [])
    lost = lost_spans(stripped, found)
    for i in lost:
        stripped[i] = take_out(texts[i], lambda _: True)
    replace_at(found, lost, translate([stripped[i].text for i in lost], [()] * len(lost)) if lost else [])
    put_all_back(texts, stripped, found, align)
    return [Protected(text, each.text) for text, each in zip(found, stripped, strict=True)]


def lost_spans(stripped: Sequence[Stripped], found: Sequence[str]) -> list[int]:
    """Return the indices of the translations that lack a span left to the model."""
    return [
        i for i, (given, text) in enumerate(zip(stripped, found, strict=True)) if not survives(given.text, text)
    ]


def replace_at(texts: list[str], places: Sequence[int], new: Sequence[str]) -> None:
    """Replace the texts at these indices."""
    for i, text in zip(places, new, strict=True):
        texts[i] = text


def put_all_back(texts: Sequence[str], stripped: Sequence[Stripped], found: list[str], align: Align) -> None:
    """Put the spans that were removed from the texts into their translations."""
    waiting = [i for i, each in enumerate(stripped) if each.root.children]
    for i in waiting:
        invented = set(spans_of(texts[i])) - set(spans_of(stripped[i].text))  # the model never saw these
        found[i] = without(found[i], invented)
    links = align([stripped[i].text for i in waiting], [found[i] for i in waiting]) if waiting else []
    for i, row in zip(waiting, links, strict=True):
        result = put_back(stripped[i], found[i], row)
        found[i] = result if survives(texts[i], result) else at_the_end(texts[i], found[i])


def at_the_end(source: str, target: str) -> str:
    """Return a translation with all spans appended: for the rare text in which they would form other spans."""
    bare = re.sub(r"[<>{}%@]|://|www\.", " ", target).rstrip()
    return " ".join([bare, *spans_of(source)]).lstrip()
