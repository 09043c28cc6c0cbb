"""HTML as tokens: text, tags, and markup that holds no text to translate.

The rules are those of browsers (the tokenization section of the HTML standard), as far as they decide where a
token ends. Joining the tokens of a document gives the document. Attributes may be of any length and contain line
breaks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from sixfold.text.tags import EMPTY_TAGS

RAW = frozenset(  # contain no tags: only their own closing tag ends them
    ["iframe", "noembed", "noframes", "script", "style", "textarea", "xmp"]
)
CODE = frozenset(["code", "kbd", "samp", "var"])
UNTRANSLATED = CODE | frozenset(["math", "object", "pre", "svg", "template"])

SPACE = r" \t\n\f\r"
VALUE = rf"\"[^\"]*+\"|'[^']*+'|(?![\"'])[^{SPACE}>]++"
ATTRIBUTE = rf"[{SPACE}/]*+([^{SPACE}/>][^{SPACE}/>=]*+)(?:[{SPACE}]*+=[{SPACE}]*+({VALUE})?+)?+"

# Matching takes linear time: every repetition is possessive, and markup that matches no pattern extends to the end
# of the document. An unpaired quotation mark is part of a name; none of its kind follows, so the search fails only
# once.
TAG_BEGINS = r"</?(?P<name>[A-Za-z][^ \t\n\f\r/>]*+)"
MARKUP_BEGINS = re.compile(r"<(?=[A-Za-z!?/])")
MARKUP = re.compile(
    rf"(?P<comment><!--(?:-?>|.*?(?:--!?>|\Z)))|(?P<tag>{TAG_BEGINS}(?:{ATTRIBUTE})*+[{SPACE}/]*+>)|<(?!/?[A-Za-z])[^>]*+>",
    re.DOTALL,
)
NEXT_ATTRIBUTE = re.compile(ATTRIBUTE)
TAG_NAME = re.compile(TAG_BEGINS)

Kind = Literal["text", "start", "end", "markup"]


@dataclass(frozen=True)
class Token:
    """A piece of HTML; `name` is the lowercase name of a tag, or of an element that is kept whole."""

    kind: Kind
    text: str
    name: str = ""


def html_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of HTML; an element with nothing to translate is one token."""
    return join_untranslated(plain_tokens(text))


def plain_tokens(text: str) -> Iterator[Token]:
    """Yield text, tags, comments and raw elements in order."""
    end = 0
    while begun := MARKUP_BEGINS.search(text, end):
        yield Token("text", text[end : begun.start()])
        token = markup_at(text, begun.start())
        yield token
        end = begun.start() + len(token.text)
    yield Token("text", text[end:])


def markup_at(text: str, place: int) -> Token:
    """Return the markup that begins at a position; if it never ends, it is the rest of the document."""
    match = MARKUP.match(text, place)
    if match is None:
        rest = text[place:]
        return Token("markup" if ">" in rest else "text", rest)
    if not match["tag"]:
        return Token("markup", match.group())
    name = match["name"].lower()
    if match.group().startswith("</"):
        return Token("end", match.group(), name)
    if name in RAW:
        return Token("markup", text[place : end_of_raw(text, match.end(), name)], name)
    return Token("start", match.group(), name)


def end_of_raw(text: str, place: int, name: str) -> int:
    """Return where the raw element ends whose content begins at a position."""
    closing = closing_tag(name).search(text, place)
    match = closing and MARKUP.match(text, closing.start())
    return match.end() if match else len(text)


@cache
def closing_tag(name: str) -> re.Pattern[str]:
    """Return a pattern for the beginning of the tag that closes a raw element."""
    return re.compile(rf"</{name}(?=[{SPACE}/>])", re.IGNORECASE)


# Elements that are not translated


def join_untranslated(tokens: Iterable[Token]) -> Iterator[Token]:
    """Merge the tokens of each untranslated element into one."""
    around: Counter[str] = Counter()  # the open elements, by name
    element: Untranslated | None = None
    for token in tokens:
        if element and element.ends_before(token, around):
            yield element.token()
            element = None
        if element is None and is_untranslated(token):
            element = Untranslated(token.name)
        if element is None:
            count_open(token, around)
            yield token
        elif element.ends_with(token):
            yield element.token()
            element = None
    if element:
        yield element.token()


class Untranslated:
    """An untranslated element, as far as it has been read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pieces: list[str] = []
        self.inside: Counter[str] = Counter()  # its open elements, by name

    def ends_before(self, token: Token, around: Counter[str]) -> bool:
        """Whether a token closes an enclosing element before this one was closed."""
        return token.kind == "end" and not self.inside[token.name] and around[token.name] > 0

    def ends_with(self, token: Token) -> bool:
        """Add a token, and return whether it is the last."""
        self.pieces.append(token.text)
        count_open(token, self.inside)
        return self.inside[self.name] == 0

    def token(self) -> Token:
        """Return the whole element."""
        return Token("markup", "".join(self.pieces), self.name)


def is_untranslated(token: Token) -> bool:
    """Whether a token begins an untranslated element."""
    return token.kind == "start" and (token.name in UNTRANSLATED or attribute(token.text, "translate") == "no")


def count_open(token: Token, elements: Counter[str]) -> None:
    """Count the elements that a token opens or closes."""
    if token.kind == "start" and token.name not in EMPTY_TAGS and not token.text.endswith("/>"):
        elements[token.name] += 1
    elif token.kind == "end" and elements[token.name]:
        elements[token.name] -= 1


def attribute(tag: str, name: str) -> str:
    """Return the value of a start tag's attribute in lowercase, or an empty string if it has none."""
    match = TAG_NAME.match(tag) if name in tag.lower() else None
    while match and (match := NEXT_ATTRIBUTE.match(tag, match.end())):
        if match[1].lower() == name:
            return (match[2] or "").strip("\"'").lower()
    return ""
