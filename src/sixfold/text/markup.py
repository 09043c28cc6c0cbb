"""HTML as parts: the sentences between tags, with the tags inside a sentence, and all else as it is.

Tags that end a line of text (paragraphs, items, cells, headings, `br`) stand between sentences and stay. Tags
inside a line (links, emphasis) go with their sentence, each under a number, and come back around the words that
belong to those they enclosed. Code, scripts, styles and comments are not translated. In what comes back, only tags
that were tags before are tags: everything else is escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from sixfold.text.documents import Fits, Part, has_words, segments_of
from sixfold.text.tags import EMPTY_TAGS, is_closing, tag_name, written_name

INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "label",
        "mark",
        "q",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "wbr",
    ]
)
CODE = "code|kbd|samp|var"  # one thing inside a sentence
OPAQUE = "script|style|pre|textarea|svg|math|template|iframe|object"  # between sentences

# Every repetition is bounded, or consumes what it has seen: time stays linear.
ATTRIBUTES = r"(?:[^<>\"']|\"[^\"]{0,2000}+\"|'[^']{0,2000}+'){0,2000}+"
PIECE = re.compile(
    r"(?P<kept><!--.*?(?:-->|\Z)|<[!?][^<>]{0,2000}+>)"
    rf"|(?P<opaque><(?P<opaque_name>{OPAQUE})\b{ATTRIBUTES}>.*?(?:</(?P=opaque_name)\s*+>|\Z))"
    rf"|(?P<code><(?P<code_name>{CODE})\b{ATTRIBUTES}>.*?(?:</(?P=code_name)\s*+>|\Z))"
    rf"|(?P<tag></?(?P<name>[A-Za-z][\w:-]{{0,100}}+){ATTRIBUTES}>)",
    re.DOTALL | re.IGNORECASE,
)
NUMBERED = re.compile(r"</?[A-Za-z][\w:-]*+ (\d++)/?>")
LIKE_A_TAG = re.compile(r"<(?=[A-Za-z/])")


@dataclass(frozen=True)
class Tag:
    """A tag inside a line, or a piece of code that goes with it."""

    text: str  # as it was written
    place: int  # in the text of the line without tags
    number: int

    @property
    def is_closing(self) -> bool:
        """Whether it ends what another began."""
        return is_closing(self.text)

    @property
    def given(self) -> str:
        """How it is given to the model's guard of tags, short and under its number."""
        is_alone = tag_name(self.text) in EMPTY_TAGS or self.text.endswith("/>") or self.text.count("<") > 1
        name = written_name(self.text)
        return f"<{'/' if self.is_closing else ''}{name} {self.number}{'/' if is_alone else ''}>"


def html_parts(text: str, language: str, fits: Fits) -> list[Part]:
    """Return the parts of a piece of HTML."""
    parts: list[Part] = []
    line = Line()
    end = 0
    for match in PIECE.finditer(text):
        line.add_text(text[end : match.start()])
        end = match.end()
        if match["code"] or (match["tag"] and match["name"].lower() in INLINE):
            line.add_tag(match.group())
        else:
            parts += [*line.parts(language, fits), Part(match.group())]
            line = Line()
    line.add_text(text[end:])
    return [*parts, *line.parts(language, fits)]


class Line:
    """Text between two tags that end a line, and the tags inside it."""

    def __init__(self) -> None:
        self.plain = ""
        self.tags: list[Tag] = []

    def add_text(self, text: str) -> None:
        """Go on with text, in which characters may be escaped."""
        self.plain += html.unescape(text)

    def add_tag(self, text: str) -> None:
        """Go on with a tag."""
        self.tags.append(Tag(text, len(self.plain), len(self.tags)))

    def parts(self, language: str, fits: Fits) -> Iterator[Part]:
        """Yield the sentences of the line with their tags, and what stands between them."""
        texts = [segment.text for segment in segments_of(self.plain, language, fits)] or [""]
        ends = list(accumulate(map(len, texts)))
        for text, end, tags in zip(texts, ends, self.shared_out(ends), strict=True):
            start = end - len(text)
            whole = with_tags(text, start, [(tag.place, tag.text) for tag in tags], html_escape)
            if has_words(text):
                given = with_tags(text, start, [(tag.place, tag.given) for tag in tags], unlike_tags)
                yield Part(whole, given, partial(restored, tags={tag.number: tag.text for tag in tags}))
            elif whole:
                yield Part(whole)

    def shared_out(self, ends: Sequence[int]) -> list[list[Tag]]:
        """Return each stretch's tags: closing ones stay with what is before them, others with what follows."""
        shares: list[list[Tag]] = [[] for _ in ends]
        i = 0
        for tag in self.tags:
            while i < len(ends) - 1 and (ends[i] < tag.place or (ends[i] == tag.place and not tag.is_closing)):
                i += 1
            shares[i].append(tag)
        return shares


def html_escape(text: str) -> str:
    """Return a text as HTML."""
    return html.escape(text, quote=False)


def unlike_tags(text: str) -> str:
    """Return a text in which nothing can be taken for a tag."""
    return LIKE_A_TAG.sub("< ", text)


def with_tags(text: str, start: int, tags: Sequence[tuple[int, str]], write: Callable[[str], str]) -> str:
    """Return a text that begins at a place of its line, with tags at places of that line."""
    pieces, begin = [], 0
    for place, tag in tags:
        pieces += [write(text[begin : place - start]), tag]
        begin = place - start
    return "".join([*pieces, write(text[begin:])])


def restored(translation: str, tags: dict[int, str]) -> str:
    """Return a translation as HTML, with the tags that its numbered ones stand for, each once."""
    left, pieces, end = dict(tags), [], 0
    for match in NUMBERED.finditer(translation):
        tag = left.pop(int(match[1]), None)
        if tag is not None:
            pieces += [html_escape(translation[end : match.start()]), tag]
            end = match.end()
    return "".join([*pieces, html_escape(translation[end:]), *left.values()])
