"""Protected spans of a text (addresses, placeholders, inline tags): find them and remove them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sixfold.text.tags import BREAKING_TAGS, is_tag, partners, tag_name

# Every pattern ends at a character it cannot contain or begins where no other match could, so time stays linear.
TAG = r"</?[A-Za-z][^<>]*+>"
URL_END = r".,;:!?'’”»"  # punctuation that belongs to the sentence if no more of the address follows
URL_PART = (  # any other character, or a pair of brackets with what it encloses
    rf"[^\s<>\"()\[\]{{}}{URL_END}]|\([^\s<>\"()]*+\)|\[[^\s<>\"\[\]]*+\]|\{{[^\s<>\"{{}}]*+\}}"
)
URL = rf"(?<![A-Za-z])(?:https?://|ftp://|www\.)(?:[{URL_END}]*+(?:{URL_PART}))++"
EMAIL = r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++"
BRACES = r"\{\{[^{}]*+\}\}|[$%#]?\{[^{}\s]*+\}"  # {{ x }}, {name}, {0}, ${x}, %{x}, #{x}
PERCENT = r"%%|(?<!\d)%(?:\(\w++\))?(?:\d++\$)?[-+#0]*+\d*+(?:\.\d++)?(?:hh|ll|[hlz])?[sdifuxXeEgGcor@]"
PROTECTED = re.compile("|".join((TAG, URL, EMAIL, BRACES, PERCENT)))


def spans_of(text: str) -> list[str]:
    """Return the protected spans of a text, in order."""
    return PROTECTED.findall(text)


def survives(source: str, target: str) -> bool:
    """Whether every span of the source occurs in the target exactly as often."""
    wanted, found = Counter(spans_of(source)), Counter(spans_of(target))
    return all(found[span] == count for span, count in wanted.items())


def without(text: str, spans: set[str]) -> str:
    """Return a text without these spans."""
    return PROTECTED.sub(lambda match: "" if match.group() in spans else match.group(), text)


@dataclass(frozen=True)
class Element:
    """A span that was removed, or two tags with what they enclosed."""

    opening: str
    closing: str  # empty if it encloses nothing
    start: int  # its position in the text without it
    end: int
    is_after_space: bool = False
    is_before_space: bool = False
    children: list[Element] = field(default_factory=list)


@dataclass(frozen=True)
class Stripped:
    """A text without the spans that were removed, and these spans as a tree."""

    text: str
    root: Element


def take_out(text: str, is_taken: Callable[[str], bool]) -> Stripped:
    """Remove spans from a text, and the space that would be left over."""
    parts: list[str] = []
    spans: list[Element] = []
    length = end = 0
    for match in PROTECTED.finditer(text):
        if is_taken(match.group()):
            part = text[end : match.start()]
            before = text[match.start() - 1] if match.start() else ""
            after = text[match.end() : match.end() + 1]
            spans.append(
                Element(
                    match.group(), "", length + len(part), length + len(part), before.isspace(), after.isspace()
                )
            )
            part, end = close_gap(match, part, before, after)
            parts.append(part)
            length += len(part)
    whole = "".join([*parts, text[end:]])
    return Stripped(whole, as_tree(spans, len(whole)))


def close_gap(match: re.Match[str], part: str, before: str, after: str) -> tuple[str, int]:
    """Return the text before a removed span, and where the text after it continues."""
    if is_tag(match.group()):
        is_joined = tag_name(match.group()) in BREAKING_TAGS and before and not before.isspace() and after.strip()
        return (part + " " if is_joined else part), match.end()
    if (not before or before.isspace()) and after.isspace():
        return part, match.end() + 1
    if before.isspace() and (not after or after in ".,;:!?)"):
        return part.removesuffix(before), match.end()
    return part, match.end()


def as_tree(spans: Sequence[Element], length: int) -> Element:
    """Pair each closing tag with its opening one; a tag without a partner is an element by itself."""
    closing = partners([span.opening for span in spans])
    ends = set(closing.values())
    root = Element("", "", 0, length)
    path = [root]
    for i, span in enumerate(spans):
        if i in ends:
            path.pop()
        elif i in closing:
            end = spans[closing[i]]
            path[-1].children.append(Element(span.opening, end.opening, span.start, end.start))
            path.append(path[-1].children[-1])
        else:
            path[-1].children.append(span)
    return root
