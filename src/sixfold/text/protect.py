"""Protected spans: addresses, placeholders and inline tags come out of a translation exactly as they went in.

Tags never reach the model: they are taken out, and put back around the words that belong to those they enclosed.
All other spans are left to the model; where it loses or changes one, it is asked again to write them (a search
with required phrases), and where that fails too, they are taken out and put back like tags. Whatever the model
does, every span of the source stands in the result exactly as often, and tags stay nested as they were.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sixfold.text.words import Link, Span, words

# Every pattern is bounded by a sign it cannot cross or begins where no other match could: time stays linear.
TAG = r"</?[A-Za-z][^<>]*+>"
URL_PART = r"[^\s<>\"()\[\]{}]|\([^\s<>\"()]*+\)|\[[^\s<>\"\[\]]*+\]|\{[^\s<>\"{}]*+\}"  # closed brackets only
URL = rf"(?<![A-Za-z])(?:https?://|ftp://|www\.)(?:{URL_PART})+(?<![.,;:!?'’”»])"
EMAIL = r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++"
BRACES = r"\{\{[^{}]*+\}\}|[$%#]?\{[^{}\s]*+\}"  # {{ x }}, {name}, {0}, ${x}, %{x}, #{x}
PERCENT = r"%%|(?<!\d)%(?:\(\w++\))?(?:\d++\$)?[-+#0]*+\d*+(?:\.\d++)?(?:hh|ll|[hlz])?[sdifuxXeEgGcor@]"
PROTECTED = re.compile("|".join((TAG, URL, EMAIL, BRACES, PERCENT)))
NAME = re.compile(r"</?([A-Za-z][\w:-]*)")

EMPTY_TAGS = {"area", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
BREAKING_TAGS = {"br", "hr", "p", "div", "li", "ul", "ol", "tr", "td", "th", *(f"h{n}" for n in range(1, 7))}
DEEPEST = 50  # tags within tags; deeper ones stand for themselves

Translate = Callable[[Sequence[str], Sequence[tuple[str, ...]]], list[str]]  # texts, and phrases each must have
Align = Callable[[Sequence[str], Sequence[str]], list[list[Link]]]


def spans_of(text: str) -> list[str]:
    """Return the spans of a text that must survive, in order."""
    return PROTECTED.findall(text)


def survives(source: str, target: str) -> bool:
    """Whether every span of the source stands in the target exactly as often."""
    wanted, found = Counter(spans_of(source)), Counter(spans_of(target))
    return all(found[span] == count for span, count in wanted.items())


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
    """Return which translations lack a span that was left to the model."""
    return [
        i for i, (given, text) in enumerate(zip(stripped, found, strict=True)) if not survives(given.text, text)
    ]


def replace_at(texts: list[str], places: Sequence[int], new: Sequence[str]) -> None:
    """Put new texts into these places."""
    for i, text in zip(places, new, strict=True):
        texts[i] = text


def put_all_back(texts: Sequence[str], stripped: Sequence[Stripped], found: list[str], align: Align) -> None:
    """Put the spans that were taken out of texts into their translations."""
    waiting = [i for i, each in enumerate(stripped) if each.root.children]
    for i in waiting:
        invented = set(spans_of(texts[i])) - set(spans_of(stripped[i].text))  # the model never saw these
        found[i] = without(found[i], invented)
    links = align([stripped[i].text for i in waiting], [found[i] for i in waiting]) if waiting else []
    for i, row in zip(waiting, links, strict=True):
        result = put_back(stripped[i], found[i], row)
        found[i] = result if survives(texts[i], result) else at_the_end(texts[i], found[i])


def without(text: str, spans: set[str]) -> str:
    """Return a text without some spans."""
    return PROTECTED.sub(lambda match: "" if match.group() in spans else match.group(), text)


def at_the_end(source: str, target: str) -> str:
    """Return a translation with all spans behind it: for the rare text that would form other spans with them."""
    bare = re.sub(r"[<>{}%@]|://|www\.", " ", target).rstrip()
    return " ".join([bare, *spans_of(source)]).lstrip()


def is_tag(span: str) -> bool:
    """Whether a span is an inline tag."""
    return span.startswith("<")


# Taking spans out


@dataclass(frozen=True)
class Element:
    """A span that was taken out, or two tags with what stood between them."""

    opening: str
    closing: str  # empty if it encloses nothing
    start: int  # where it stood, in the text without it
    end: int
    is_after_space: bool = False
    is_before_space: bool = False
    children: list[Element] = field(default_factory=list)


@dataclass(frozen=True)
class Stripped:
    """A text without the spans that were taken out, and these as a tree."""

    text: str
    root: Element


def take_out(text: str, is_taken: Callable[[str], bool]) -> Stripped:
    """Take spans out of a text, and the space that would be left over."""
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
    """Return the text before a span that is taken out, and where the text after it goes on."""
    if is_tag(match.group()):
        is_joined = tag_name(match.group()) in BREAKING_TAGS and before and not before.isspace() and after.strip()
        return (part + " " if is_joined else part), match.end()
    if (not before or before.isspace()) and after.isspace():
        return part, match.end() + 1
    if before.isspace() and (not after or after in ".,;:!?)"):
        return part.removesuffix(before), match.end()
    return part, match.end()


def tag_name(tag: str) -> str:
    """Return the name of a tag."""
    found = NAME.match(tag)
    return found[1].lower() if found else ""


def as_tree(spans: Sequence[Element], length: int) -> Element:
    """Join every closing tag to its opening one; a tag without a partner stands for itself."""
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


def partners(spans: Sequence[str]) -> dict[int, int]:
    """Return the place of the closing tag for that of each opening tag that has one, well nested."""
    found: dict[int, int] = {}
    path: list[tuple[str, int]] = []
    is_open: Counter[str] = Counter()
    for i, span in enumerate(spans):
        name = tag_name(span) if is_tag(span) else ""
        if span.startswith("</") and is_open[name]:
            while path[-1][0] != name:
                is_open[path.pop()[0]] -= 1
            found[path.pop()[1]] = i
            is_open[name] -= 1
        elif is_opening(span, name) and len(path) < DEEPEST:
            path.append((name, i))
            is_open[name] += 1
    return found


def is_opening(span: str, name: str) -> bool:
    """Whether a span is a tag that another one closes."""
    return bool(name) and not span.startswith("</") and not span.endswith("/>") and name not in EMPTY_TAGS


# Putting them back


def put_back(stripped: Stripped, target: str, links: Sequence[Link]) -> str:
    """Return the translation with the spans at the places that the links give them."""
    units = units_of(target)
    layout = Layout(target, units, Places(len(units), units, links))
    layout.enclose(stripped.root, 0, len(units))
    return layout.text()


def units_of(text: str) -> list[Span]:
    """Return the words of a text; a protected span in it is one, whatever it is made of."""
    spans = [match.span() for match in PROTECTED.finditer(text)]
    ends = [end for _, end in spans]
    outside = []
    for start, end in words(text):
        i = bisect_right(ends, start)
        if i == len(spans) or spans[i][0] >= end:
            outside.append((start, end))
    return sorted([*spans, *outside])


class Places:
    """Which units of the target belong to which stretch of the source."""

    def __init__(self, num_units: int, units: Sequence[Span], links: Sequence[Link]) -> None:
        starts = [start for start, _ in units]
        self.of_word: dict[int, list[int]] = {}  # by the source word's first character
        self.best: list[Link | None] = [None] * num_units
        for link in links:
            unit = bisect_right(starts, link.target_start) - 1
            if 0 <= unit < num_units:
                self.of_word.setdefault(link.source_start, []).append(unit)
                best = self.best[unit]
                if best is None or link.weight > best.weight:
                    self.best[unit] = link
        self.words = sorted(self.of_word)
        self.ends = sorted({link.source_end for link in links})

    def range_of(self, element: Element, low: int, high: int) -> tuple[int, int]:
        """Return the units, of those from low to high, that belong to what an element encloses."""
        first, last = bisect_right(self.ends, element.start), bisect_left(self.words, element.end)
        own = [unit for word in self.words[first:last] for unit in self.of_word[word] if low <= unit < high]
        best, best_range = 0.0, (0, 0)
        total, begin = 0.0, low
        for unit in range(min(own, default=0), max(own, default=-1) + 1):  # most of its own, fewest others
            if total <= 0:
                total, begin = 0.0, unit
            total += self.vote(unit, element)
            if total > best:
                best, best_range = total, (begin, unit + 1)
        if best:
            return best_range
        place = self.place_of(element, low, high)
        return place, place

    def vote(self, unit: int, element: Element) -> float:
        """Return whether a unit belongs into an element: yes, no, or it does not matter."""
        link = self.best[unit]
        if link is None:
            return -0.1
        return 1.0 if link.source_start < element.end and link.source_end > element.start else -1.0

    def place_of(self, element: Element, low: int, high: int) -> int:
        """Return the unit, from low to high, before which something belongs that encloses nothing."""
        i = bisect_left(self.words, element.start)
        after = [unit for word in self.words[i : i + 1] for unit in self.of_word[word] if low <= unit < high]
        before = [unit + 1 for word in self.words[max(0, i - 1) : i] for unit in self.of_word[word]]
        before = [unit for unit in before if low <= unit <= high]
        is_attached = element.is_before_space and not element.is_after_space
        if before and (is_attached or not after):
            return max(before)
        return min(after) if after else high


class Layout:
    """A text with things to be put before and after its units."""

    def __init__(self, target: str, units: Sequence[Span], places: Places) -> None:
        self.target, self.units, self.places = target, units, places
        self.before: list[list[Element | str]] = [[] for _ in range(len(units) + 1)]
        self.after: list[list[Element | str]] = [[] for _ in range(len(units) + 1)]  # of the unit before

    def enclose(self, parent: Element, low: int, high: int) -> None:
        """Place the children of an element, whose own range is from low to high."""
        ranges = [self.places.range_of(child, low, high) if child.closing else None for child in parent.children]
        wishes = [
            each or (place := self.places.place_of(child, low, high), place)
            for child, each in zip(parent.children, ranges, strict=True)
        ]
        for i in sorted(range(len(wishes)), key=lambda i: (*wishes[i], i)):
            begin = max(low, wishes[i][0])
            low = max(begin, wishes[i][1])
            self.place(parent.children[i], begin, low, high)

    def place(self, element: Element, begin: int, end: int, high: int) -> None:
        """Place an element around these units, or between two if there are none."""
        if begin < end:
            self.before[begin].append(element.opening)
            self.enclose(element, begin, end)
            self.after[end].append(element.closing)
        else:
            slot = self.after if begin == high else self.before
            slot[begin].extend(flat(element))

    def text(self) -> str:
        """Return the whole text."""
        pieces: list[Element | str] = []
        end = 0
        for i, (start, after) in enumerate([*self.units, (len(self.target), len(self.target))]):
            pieces += [*self.after[i], self.target[end:start], *self.before[i], self.target[start:after]]
            end = after
        return "".join(spaced([piece for piece in pieces if piece]))


def flat(element: Element) -> Iterator[Element | str]:
    """Yield an element that encloses no words, and all in it."""
    if not element.closing:
        yield element
        return
    yield element.opening
    for child in element.children:
        yield from flat(child)
    yield element.closing


def spaced(pieces: Sequence[Element | str]) -> Iterator[str]:
    """Yield the text of pieces, with a space between a span and a word beside it."""
    last = ""
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        if isinstance(piece, str) or is_tag(piece.opening):
            text = piece if isinstance(piece, str) else piece.opening
        else:
            following_text = following if isinstance(following, str) else following.opening
            is_glued = last.isalnum() or (piece.is_after_space and last.strip())
            text = " " * bool(is_glued) + piece.opening + " " * needs_space(piece, following, following_text[:1])
        yield text
        last = text[-1:]


def needs_space(piece: Element, following: Element | str, sign: str) -> bool:
    """Whether a span must be kept apart from the sign behind it."""
    if not sign.strip():
        return False
    if isinstance(following, Element) and following.start == piece.start:
        return piece.is_before_space
    return sign.isalnum() or sign in "{$%#/@&=-_+~:"
