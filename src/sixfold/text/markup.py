"""HTML as parts: the sentences between tags, with the tags inside a sentence, and all else as it is.

Block-level tags (paragraphs, items, cells, headings, `br`) separate sentences and are kept. Inline tags (links,
emphasis) are numbered and given to the model with their sentence, and are put around the translations of the words
they enclosed. Code, scripts, styles and comments are not translated. Only the tags of the input are tags in the
output: everything else is escaped.
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
# A character reference with more digits than Python converts.
ENDLESS_NUMBER = re.compile(r"&#(?:[0-9]{1000,}+|[xX][0-9a-fA-F]{1000,}+);?")


@dataclass(frozen=True)
class Tag:
    """An inline tag, or an untranslated element inside a line."""

    text: str  # as it was written
    place: int  # its position in the text of the line without tags
    number: int
    is_alone: bool  # encloses nothing to translate

    @property
    def is_closing(self) -> bool:
        """Whether it is a closing tag."""
        return is_closing(self.text)

    @property
    def given(self) -> str:
        """The short numbered tag that replaces it in the text to translate."""
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
    """The text between two block-level tags, with its inline tags."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.length = 0
        self.tags: list[Tag] = []

    def add_text(self, text: str) -> None:
        """Append text, which may contain character references."""
        self.texts.append(unescaped(text))
        self.length += len(self.texts[-1])

    def add_tag(self, token: Token) -> None:
        """Append a tag."""
        is_alone = token.kind == "markup" or token.name in EMPTY_TAGS or token.text.endswith("/>")
        self.tags.append(Tag(token.text, self.length, len(self.tags), is_alone))

    def parts(self, language: str, fits: Fits) -> Iterator[Part]:
        """Yield the sentences of the line with their tags, and the text between them."""
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
        """Return the tags of each stretch: closing tags belong to the text before, others to that after."""
        tags: list[list[Tag]] = [[] for _ in ends]
        i = 0
        for tag in self.tags:
            while i < len(ends) - 1 and (ends[i] < tag.place or (ends[i] == tag.place and not tag.is_closing)):
                i += 1
            tags[i].append(tag)
        return tags


def unescaped(text: str) -> str:
    """Return the text of a piece of HTML without tags, character references decoded."""
    return html.unescape(ENDLESS_NUMBER.sub("\ufffd", text))


def html_escape(text: str) -> str:
    """Escape a text for HTML."""
    return html.escape(text, quote=False)


def unlike_tags(text: str) -> str:
    """Return a text in which nothing looks like a tag."""
    return LIKE_A_TAG.sub("< ", text)


def with_tags(text: str, start: int, tags: Sequence[tuple[int, str]], write: Callable[[str], str]) -> str:
    """Insert tags into a text that begins at `start` of its line; tags have positions in that line."""
    pieces, begin = [], 0
    for place, tag in tags:
        pieces += [write(text[begin : place - start]), tag]
        begin = place - start
    return "".join([*pieces, write(text[begin:])])


def restored(translation: str, tags: dict[int, str]) -> str:
    """Return a translation as HTML, with each numbered tag replaced by the original one, each once."""
    left, pieces, end = dict(tags), [], 0
    for match in NUMBERED.finditer(translation):
        tag = left.pop(int(match[1]), None)
        if tag is not None:
            pieces += [html_escape(translation[end : match.start()]), tag]
            end = match.end()
    return "".join([*pieces, html_escape(translation[end:]), *left.values()])
