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
from sixfold.text.html_tokens import CODE, Token, html_tokens
from sixfold.text.tags import EMPTY_TAGS, is_closing, written_name

INLINE = frozenset([
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "img",
    "ins", "label", "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr",
])  # fmt: skip
NUMBERED = re.compile(r"</?[A-Za-z][\w:-]*+ (\d++)/?>")
LIKE_A_TAG = re.compile(r"<(?=[A-Za-z/])")
# A number of more digits than Python reads.
ENDLESS_NUMBER = re.compile(r"&#(?:[0-9]{1000,}+|[xX][0-9a-fA-F]{1000,}+);?")


@dataclass(frozen=True)
class Tag:
    """A tag inside a line, or an element in it that is not translated."""

    text: str  # as it was written
    place: int  # in the text of the line without tags
    number: int
    is_alone: bool  # encloses nothing that is translated

    @property
    def is_closing(self) -> bool:
        """Whether it ends what another began."""
        return is_closing(self.text)

    @property
    def given(self) -> str:
        """The short numbered tag that stands for it in the text to translate."""
        begin, end = "</" if self.is_closing else "<", "/>" if self.is_alone else ">"
        return f"{begin}{written_name(self.text)} {self.number}{end}"


def html_parts(text: str, language: str, fits: Fits) -> list[Part]:
    """Return the parts of a piece of HTML."""
    parts: list[Part] = []
    line = Line()
    for token in html_tokens(text):
        if token.kind == "text":
            line.add_text(token.text)
        elif token.name in INLINE or token.name in CODE:
            line.add_tag(token)
        else:
            parts += [*line.parts(language, fits), Part(token.text)]
            line = Line()
    return [*parts, *line.parts(language, fits)]


class Line:
    """Text between two tags that end a line, and the tags inside it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.length = 0
        self.tags: list[Tag] = []

    def add_text(self, text: str) -> None:
        """Append text, in which characters may be escaped."""
        self.texts.append(unescaped(text))
        self.length += len(self.texts[-1])

    def add_tag(self, token: Token) -> None:
        """Append a tag."""
        is_alone = token.kind == "markup" or token.name in EMPTY_TAGS or token.text.endswith("/>")
        self.tags.append(Tag(token.text, self.length, len(self.tags), is_alone))

    def parts(self, language: str, fits: Fits) -> Iterator[Part]:
        """Yield the sentences of the line with their tags, and what stands between them."""
        texts = [segment.text for segment in segments_of("".join(self.texts), language, fits)] or [""]
        ends = list(accumulate(map(len, texts)))
        for text, end, tags in zip(texts, ends, self.tags_of_stretches(ends), strict=True):
            start = end - len(text)
            whole = with_tags(text, start, [(tag.place, tag.text) for tag in tags], html_escape)
            if has_words(text):
                given = with_tags(text, start, [(tag.place, tag.given) for tag in tags], unlike_tags)
                yield Part(whole, given, partial(restored, tags={tag.number: tag.text for tag in tags}))
            elif whole:
                yield Part(whole)

    def tags_of_stretches(self, ends: Sequence[int]) -> list[list[Tag]]:
        """Return each stretch's tags: closing ones stay with what is before them, others with what follows."""
        tags: list[list[Tag]] = [[] for _ in ends]
        i = 0
        for tag in self.tags:
            while i < len(ends) - 1 and (ends[i] < tag.place or (ends[i] == tag.place and not tag.is_closing)):
                i += 1
            tags[i].append(tag)
        return tags


def unescaped(text: str) -> str:
    """Return the text that a piece of HTML without tags stands for."""
    return html.unescape(ENDLESS_NUMBER.sub("\ufffd", text))


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
