"""Formats of parallel text: each function reads one format and yields pairs as they come.

A side is one line. In the formats whose sides may hold line breaks (JSONL, TMX, Parquet, PO) each break,
with the blanks around it, becomes one space.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat

from sixfold.data.streams import Input, blocks_of, lines_of, naming, need
from sixfold.errors import DataError

if TYPE_CHECKING:
    import pyarrow

Languages = tuple[str, str]  # the names of the source and of the target language


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and its target, and the line (or record) of the file they came from, counted from 1."""

    source: str
    target: str
    line: int


def one_line(text: str) -> str:
    """Return the text with each line break, and the blanks around it, as one space."""
    if "\n" not in text:
        return text
    return " ".join(piece for line in text.split("\n") if (piece := line.strip()))


# Two line-aligned files


def read_aligned(source: Input, target: Input) -> Iterator[Pair]:
    """Pair line n of one file with line n of the other; both must have the same number of lines."""
    source_lines, target_lines = lines_of(source), lines_of(target)
    for line, (left, right) in enumerate(zip_longest(source_lines, target_lines), start=1):
        if left is None or right is None:
            rest = sum(1 for _ in source_lines) + sum(1 for _ in target_lines)
            raise unequal_counts(source, target, line - 1, line + rest, right is None)
        yield Pair(left, right, line)


def unequal_counts(source: Input, target: Input, fewer: int, more: int, source_has_more: bool) -> DataError:
    """Return the error that tells how many lines each file has."""
    num_source, num_target = (more, fewer) if source_has_more else (fewer, more)
    return DataError(
        f"The files must have the same number of lines: {source.name} has {num_source:,}, "
        f"{target.name} has {num_target:,}.",
        "Find the line that one of them lacks: from there on, every pair is wrong.",
    )


# TSV


def read_tsv(source: Input) -> Iterator[Pair]:
    """Read `source<TAB>target` lines; each has exactly one tab."""
    for line, text in enumerate(lines_of(source), start=1):
        left, tab, right = text.partition("\t")
        if not tab or "\t" in right:
            raise DataError(
                f"{source.name}, line {line:,}: expected exactly one tab, found {text.count(chr(9))}.",
                "A TSV line is: source, tab, target.",
            )
        yield Pair(left, right, line)


# JSON Lines


def read_jsonl(source: Input, languages: Languages | None = None) -> Iterator[Pair]:
    """Read one object a line, `{"source", "target"}` or `{"translation": {"en", "de"}}`; skip blank lines."""
    names: Languages | None = None
    for line, text in enumerate(lines_of(source), start=1):
        if not text.strip():
            continue
        where = f"{source.name}, line {line:,}"
        sides = json_sides(text, where)
        names = names or side_names(list(sides), languages, where)
        yield Pair(json_side(sides, names[0], where), json_side(sides, names[1], where), line)


def json_sides(text: str, where: str) -> dict[str, object]:
    """Return the object that holds the two sides of a line."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error}).", "Every line must be one JSON object.") from error
    sides = record.get("translation", record) if isinstance(record, dict) else record
    if not isinstance(sides, dict):
        raise DataError(
            f"{where}: expected a JSON object, found {text[:40]!r}.", "Every line must be one JSON object."
        )
    return sides


def json_side(sides: dict[str, object], name: str, where: str) -> str:
    """Return one side as one line of text that can be written as UTF-8."""
    text = sides.get(name)
    if not isinstance(text, str):
        raise DataError(f"{where}: {name!r} must be text, found {text!r:.40}.", f"It has: {', '.join(sides)}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # JSON can escape half of a character
        raise DataError(f"{where}: {name!r} has half of a surrogate pair.", "Write whole characters.") from error
    return one_line(text)


def side_names(names: list[str], languages: Languages | None, where: str) -> Languages:
    """Choose the source and the target among the sides of the first record."""
    wanted = languages or (("source", "target") if {"source", "target"} <= set(names) else None)
    if wanted is None and len(names) == 2:
        wanted = (names[0], names[1])
    if wanted is None or not set(wanted) <= set(names):
        expected = " and ".join(wanted or ("source", "target"))
        raise DataError(
            f"{where}: expected {expected}, found {', '.join(names) or 'nothing'}.",
            'A record is {"source": …, "target": …} or {"translation": {"en": …, "de": …}}, two languages.',
        )
    return wanted


# TMX


def read_tmx(source: Input, languages: Languages | None = None) -> Iterator[Pair]:
    """Read the translation units of a TMX file as a stream; nothing in it is expanded or fetched."""
    units = TmxUnits(source.name, languages)
    try:
        for block in blocks_of(source):
            yield from units.feed(block)
        yield from units.feed(b"", is_last=True)
    except (
        expat.ExpatError,
        LookupError,
        ValueError,
    ) as error:  # the latter two: an encoding it does not know
        raise DataError(f"{source.name}: not well-formed XML ({error}).", "Export the TMX file again.") from error


class TmxUnits:
    """Collects the units of a TMX file while expat reads it.

    The first unit's order decides which language is the source. Of two segments in one language the first
    counts. A unit without a translation has an empty target.
    """

    MARKUP = frozenset({"bpt", "ept", "it", "ph", "ut"})  # inline codes of the original format, not text

    def __init__(self, name: str, languages: Languages | None) -> None:
        self.name = name
        self.languages = tuple(language.casefold() for language in languages) if languages else ()
        self.chosen = languages is not None
        self.pairs: list[Pair] = []
        self.unit: dict[str, str] = {}
        self.line = 0
        self.language = ""
        self.text: list[str] | None = None  # pieces of the open segment
        self.markup_depth = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self.refuse_doctype
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters

    def feed(self, block: bytes, is_last: bool = False) -> list[Pair]:
        """Parse a block and return the pairs that it completed."""
        self.pairs = []
        self.parser.Parse(block, is_last)
        return self.pairs

    def refuse_doctype(self, *_: object) -> None:
        """Refuse the only place from which entities could come."""
        where = f"{self.name}, line {self.parser.CurrentLineNumber:,}"
        raise DataError(
            f"{where}: a DOCTYPE is refused, because it can declare entities that never end.",
            "Remove the <!DOCTYPE …> from the file.",
        )

    def start(self, element: str, attributes: dict[str, str]) -> None:
        """Begin a unit, a language variant or a segment."""
        if element == "tu":
            self.unit, self.line = {}, self.parser.CurrentLineNumber
        elif element == "tuv":
            self.language = self.known_language(attributes.get("xml:lang") or attributes.get("lang") or "")
        elif element == "seg":
            self.text, self.markup_depth = [], 0
        elif element in self.MARKUP:
            self.markup_depth += 1

    def known_language(self, name: str) -> str:
        """Return the language that was asked for if this is a variety of it (en-US of en), or its name."""
        name = name.casefold()
        return next((known for known in self.languages if name.startswith(f"{known}-")), name)

    def characters(self, text: str) -> None:
        """Keep the text of a segment, without its inline codes."""
        if self.text is not None and not self.markup_depth:
            self.text.append(text)

    def end(self, element: str) -> None:
        """Finish a segment or a unit."""
        if element == "seg" and self.text is not None:
            self.unit.setdefault(self.language, one_line("".join(self.text)))
            self.text = None
        elif element == "tu" and self.unit:
            self.finish_unit()
        elif element in self.MARKUP:
            self.markup_depth -= 1

    def finish_unit(self) -> None:
        """Turn the finished unit into a pair."""
        if len(self.languages) < 2:
            self.languages = tuple(dict.fromkeys([*self.languages, *self.unit]))
        others = set(self.unit) - set(self.languages)
        if len(self.languages) > 2 or (others and not self.chosen):
            raise DataError(
                f"{self.name}, line {self.line:,}: expected two languages, found "
                f"{', '.join(sorted({*self.languages, *self.unit}))}.",
                "Export two languages only.",
            )
        source, target = (*self.languages, "")[:2]
        self.pairs.append(Pair(self.unit.get(source, ""), self.unit.get(target, ""), self.line))


# Parquet


def read_parquet(source: Input, languages: Languages | None = None) -> Iterator[Pair]:
    """Read the columns `source` and `target`, or the two languages of a `translation` column."""
    arrow, parquet = need("pyarrow", "Reading Parquet"), need("pyarrow.parquet", "Reading Parquet")
    line = 0
    with naming(source.name), source.open() as file:
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=4096):
                for left, right in zip(*parquet_sides(batch, languages, source.name), strict=True):
                    line += 1
                    yield parquet_pair(left, right, line, source.name)
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            raise DataError(f"{source.name}: damaged Parquet ({error}).", "Write the file again.") from error


def parquet_sides(batch: pyarrow.RecordBatch, languages: Languages | None, name: str) -> tuple[list[object], ...]:
    """Return the values of both sides of a batch of rows."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    translation = columns.get("translation")
    if translation is not None and translation.type.num_fields > 1:
        columns = dict(zip((field.name for field in translation.type), translation.flatten(), strict=True))
    names = side_names(list(columns), languages, name)
    return tuple(columns[side].to_pylist() for side in names)


def parquet_pair(left: object, right: object, line: int, name: str) -> Pair:
    """Return a pair if both sides of a row are text."""
    if not isinstance(left, str) or not isinstance(right, str):
        raise DataError(
            f"{name}, row {line:,}: expected text, found {left!r:.40} and {right!r:.40}.",
            "Both columns must be of a string type and without nulls.",
        )
    return Pair(one_line(left), one_line(right), line)


# PO


def read_po(source: Input) -> Iterator[Pair]:
    """Read the translated messages of a PO file: not the fuzzy, the obsolete and the untranslated ones."""
    polib = need("polib", "Reading a PO file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "messages.po"  # polib reads lines faithfully only from a plain file
        with naming(source.name), source.open() as file, path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        try:
            entries = polib.pofile(str(path))
        except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
            reason = str(error).replace(f"{path} ", "").replace(str(path), "")
            raise DataError(
                f"{source.name}: not a PO file ({reason}).", "Check it with: msgfmt --check"
            ) from error
    for entry in entries:
        if not (entry.obsolete or entry.fuzzy):
            forms = [
                (entry.msgid, entry.msgstr),
                *plural_forms(entry.msgid, entry.msgid_plural, entry.msgstr_plural),
            ]
            yield from (
                Pair(one_line(left), one_line(right), entry.linenum) for left, right in forms if left and right
            )


def plural_forms(singular: str, plural: str, forms: dict[int, str]) -> list[tuple[str, str]]:
    """Pair the singular with the first form, and the plural with the last, the one for large numbers."""
    return [(singular, forms[min(forms)]), (plural, forms[max(forms)])] if forms else []
