"""Tags of HTML and of interface texts: their names, and which closing tag belongs to which opening one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

NAME = re.compile(r"</?([A-Za-z][\w:-]*)")

EMPTY_TAGS = frozenset(  # void elements: enclose nothing, and are never closed
    ["area", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
BREAKING_TAGS = frozenset(  # separate words, as a space does
    ["br", "hr", "p", "div", "li", "ul", "ol", "tr", "td", "th", *(f"h{n}" for n in range(1, 7))]
)
DEEPEST = 50  # nesting depth; deeper tags are not paired


def is_tag(span: str) -> bool:
    """Whether a span is an inline tag."""
    return span.startswith("<")


def is_closing(tag: str) -> bool:
    """Whether a tag is a closing tag."""
    return tag.startswith("</")


def written_name(tag: str) -> str:
    """Return the name of a tag as it is written."""
    found = NAME.match(tag)
    return found[1] if found else ""


def tag_name(tag: str) -> str:
    """Return the lowercase name of a tag, by which tags are compared."""
    return written_name(tag).lower()


def partners(spans: Sequence[str]) -> dict[int, int]:
    """Return the index of the closing tag by that of its opening tag, if there is one; pairs are well nested."""
    found: dict[int, int] = {}
    path: list[tuple[str, int]] = []
    is_open: Counter[str] = Counter()
    for i, span in enumerate(spans):
        name = tag_name(span) if is_tag(span) else ""
        if is_closing(span) and is_open[name]:
            while path[-1][0] != name:
                is_open[path.pop()[0]] -= 1
            found[path.pop()[1]] = i
            is_open[name] -= 1
        elif is_opening(span, name) and len(path) < DEEPEST:
            path.append((name, i))
            is_open[name] += 1
    return found


def is_opening(span: str, name: str) -> bool:
    """Whether a span is an opening tag."""
    return bool(name) and not is_closing(span) and not span.endswith("/>") and name not in EMPTY_TAGS
