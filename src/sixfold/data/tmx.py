"""TMX: translation memories, read as a stream; no entity is expanded and no DTD is fetched.

A unit has a text in each of its languages. Unless the user names source and target, the source is the `srclang` of
the header, or else that of a unit, or else the language that comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from sixfold.data.formats import Pair, one_line
from sixfold.data.languages import Languages, how_to_choose, tag_of
from sixfold.data.streams import Input, blocks_of
from sixfold.errors import DataError

ANY = "*all*"  # a `srclang` that names no language
INLINE_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})  # markup of the original format, not text


@dataclass(frozen=True, slots=True)
class Unit:
    """A translation unit: its texts by language tag, its source language if stated, and its first line."""

    texts: dict[str, str]
    source: str
    line: int


@dataclass(slots=True)
class Contents:
    """The languages of a file, each as it is first spelled, with the number of its texts."""

    source: str = ""
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, unit: Unit) -> None:
        """Count the languages of a unit."""
        self.source = self.source or unit.source
        for tag in unit.texts:
            known = next((each for each in self.counts if each.casefold() == tag.casefold()), tag)
            self.counts[known] = self.counts.get(known, 0) + 1

    def __str__(self) -> str:
        return ", ".join(f"{tag} ({count:,})" for tag, count in self.counts.items())


def tmx_languages(source: Input, asked: Languages | None) -> Languages:
    """Return the source and target language of a file; the target is empty if the file has one language only."""
    found = Contents()
    for unit in units_of(source):
        found.add(unit)
    tags = list(found.counts)
    if asked is not None:
        refuse_missing(source, found, asked)
        return asked
    if len(tags) > 2:
        message = f"{source.name} has more than two languages: {found}."
        raise DataError(message, how_to_choose(in_order(tags, found.source)))
    first, second = [*in_order(tags, found.source), "", ""][:2]
    return first, second


def in_order(tags: list[str], source: str) -> list[str]:
    """Return the language tags with the source first, if it is among them."""
    first = tag_of(source, tags)
    return tags if first is None else [first, *(tag for tag in tags if tag != first)]


def refuse_missing(source: Input, found: Contents, asked: Languages) -> None:
    """Raise if a file lacks a language that the user asks for."""
    for language in asked:
        if tag_of(language, found.counts) is None:
            raise DataError(
                f"{source.name} has no {language}; it has: {found}.",
                how_to_choose(in_order(list(found.counts), found.source)),
            )


def read_tmx(source: Input, languages: Languages) -> Iterator[Pair]:
    """Yield the pairs of two languages; if a unit lacks one, that side is empty."""
    for unit in units_of(source):
        left = tag_of(languages[0], unit.texts)
        right = tag_of(languages[1], [tag for tag in unit.texts if tag != left]) if languages[1] else None
        yield Pair(unit.texts[left] if left else "", unit.texts[right] if right else "", unit.line)


def units_of(source: Input) -> Iterator[Unit]:
    """Yield the units of a file in order."""
    reader = UnitReader(source.name)
    try:
        for block in blocks_of(source):
            yield from reader.feed(block)
        yield from reader.feed(b"", is_last=True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two: an unknown encoding
        raise DataError(f"{source.name}: not well-formed XML ({error}).", "Export the TMX file again.") from error


class UnitReader:
    """Collects the units of a file while expat reads it; the first of two texts in one language counts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.units: list[Unit] = []
        self.unit = Unit({}, "", 0)
        self.source = ""  # the language of all units that do not state their own
        self.tag = ""
        self.text: list[str] | None = None  # pieces of the open segment
        self.depth = 0  # of nested inline codes
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self.check_doctype
        self.parser.SkippedEntityHandler = self.refuse_entity
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters

    def feed(self, block: bytes, is_last: bool = False) -> list[Unit]:
        """Parse a block and return the units that it completed."""
        self.units = []
        self.parser.Parse(block, is_last)
        return self.units

    @property
    def where(self) -> str:
        """The file and the current line."""
        return f"{self.name}, line {self.parser.CurrentLineNumber:,}"

    def check_doctype(self, name: str, system: str | None, public: str | None, has_subset: bool) -> None:
        """Refuse entities declared in the file; a DTD that is only referred to is never opened."""
        del name, system, public
        if has_subset:
            raise DataError(
                f"{self.where}: a DOCTYPE with declarations of its own is refused, because an entity can expand "
                "without end.",
                "Remove its part in brackets: <!DOCTYPE tmx […]>",
            )

    def refuse_entity(self, name: str, is_parameter: bool) -> None:
        """Refuse an entity that only a DTD could define, instead of omitting it from the text."""
        del is_parameter
        raise DataError(
            f"{self.where}: the entity &{name}; is not part of XML, and no DTD is read.",
            "Write the character itself.",
        )

    def start(self, element: str, attributes: dict[str, str]) -> None:
        """Begin the file's header, a unit, a language variant or a segment."""
        if element == "header":
            self.source = stated_source(attributes)
        elif element == "tu":
            self.unit = Unit({}, stated_source(attributes) or self.source, self.parser.CurrentLineNumber)
        elif element == "tuv":
            self.tag = attributes.get("xml:lang") or attributes.get("lang") or ""
        elif element == "seg":
            self.text, self.depth = [], 0
        elif element in INLINE_CODES:
            self.depth += 1

    def characters(self, text: str) -> None:
        """Keep the text of a segment, without its inline codes."""
        if self.text is not None and not self.depth:
            self.text.append(text)

    def end(self, element: str) -> None:
        """Finish a segment or a unit."""
        if element == "seg" and self.text is not None:
            self.unit.texts.setdefault(self.tag, one_line("".join(self.text)))
            self.text = None
        elif element == "tu" and self.unit.texts:
            self.units.append(self.unit)
        elif element in INLINE_CODES:
            self.depth -= 1


def stated_source(attributes: dict[str, str]) -> str:
    """Return the `srclang` of a header or a unit, empty if it does not name a language."""
    source = attributes.get("srclang", "").strip()
    return "" if source.casefold() == ANY else source
