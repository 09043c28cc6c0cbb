"""Put spans that were removed from a text into its translation, next to the words they belong to.

The word alignment tells where. Tags stay nested as they were.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from sixfold.text.spans import PROTECTED, Element, Stripped
from sixfold.text.tags import is_tag
from sixfold.text.words import Link, Span, words


def put_back(stripped: Stripped, target: str, links: Sequence[Link]) -> str:
    """Return the translation with the spans where the alignment links place them."""
    units = units_of(target)
    layout = Layout(target, units, Places(len(units), units, links))
    layout.enclose(stripped.root, 0, len(units))
    return layout.text()


def units_of(text: str) -> list[Span]:
    """Return the words of a text; a protected span counts as one word."""
    spans = [match.span() for match in PROTECTED.finditer(text)]
    ends = [end for _, end in spans]
    outside = []
    for start, end in words(text):
        i = bisect_right(ends, start)
        if i == len(spans) or spans[i][0] >= end:
            outside.append((start, end))
    return sorted([*spans, *outside])


class Places:
    """Where each stretch of the source is in the target, in units."""

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
        """Return the range of units between low and high that translate what an element encloses."""
        first, last = bisect_right(self.ends, element.start), bisect_left(self.words, element.end)
        own = [unit for word in self.words[first:last] for unit in self.of_word[word] if low <= unit < high]
        best, best_range = 0.0, (0, 0)
        total, begin = 0.0, low
        for unit in range(
            min(own, default=0), max(own, default=-1) + 1
        ):  # the range with most of its own units and fewest others
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
        """Return 1 if a unit is aligned with the content of an element, -1 if with other text, else almost 0."""
        link = self.best[unit]
        if link is None:
            return -0.1
        return 1.0 if link.source_start < element.end and link.source_end > element.start else -1.0

    def place_of(self, element: Element, low: int, high: int) -> int:
        """Return the unit between low and high before which to put an element that encloses nothing."""
        i = bisect_left(self.words, element.start)
        after = [unit for word in self.words[i : i + 1] for unit in self.of_word[word] if low <= unit < high]
        before = [unit + 1 for word in self.words[max(0, i - 1) : i] for unit in self.of_word[word]]
        before = [unit for unit in before if low <= unit <= high]
        is_attached = element.is_before_space and not element.is_after_space
        if before and (is_attached or not after):
            return max(before)
        return min(after) if after else high


class Layout:
    """A text and what to insert before and after each of its units."""

    def __init__(self, target: str, units: Sequence[Span], places: Places) -> None:
        self.target, self.units, self.places = target, units, places
        self.before: list[list[Element | str]] = [[] for _ in range(len(units) + 1)]
        self.after: list[list[Element | str]] = [[] for _ in range(len(units) + 1)]  # after the unit before

    def enclose(self, parent: Element, low: int, high: int) -> None:
        """Place the children of an element, whose own range is from low to high."""
        ranges = [self.places.range_of(child, low, high) if child.closing else None for child in parent.children]
        preferred = [
            each or (place := self.places.place_of(child, low, high), place)
            for child, each in zip(parent.children, ranges, strict=True)
        ]
        for i in sorted(range(len(preferred)), key=lambda i: (*preferred[i], i)):
            begin = max(low, preferred[i][0])
            low = max(begin, preferred[i][1])
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
    """Yield an element that encloses no words, and everything in it."""
    if not element.closing:
        yield element
        return
    yield element.opening
    for child in element.children:
        yield from flat(child)
    yield element.closing


def spaced(pieces: Sequence[Element | str]) -> Iterator[str]:
    """Yield the text of pieces, with a space between a span and an adjacent word."""
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
    """Whether a span must be separated from the character after it."""
    if not sign.strip():
        return False
    if isinstance(following, Element) and following.start == piece.start:
        return piece.is_before_space
    return sign.isalnum() or sign in "{$%#/@&=-_+~:"
