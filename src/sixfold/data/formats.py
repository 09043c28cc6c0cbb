"""Formats of parallel text: each function reads one format and yields its pairs in order.

A side is one line. In formats whose sides may contain line breaks (JSONL, Parquet, PO, and TMX in `tmx.py`) each
break, with the white space around it, becomes one space.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from sixfold.data.content import Record, json_text, records_of
from sixfold.data.languages import Languages, choose_sides
from sixfold.data.streams import Input, lines_of, naming, need
from sixfold.errors import DataError

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and its target, and the line (or record) of the file they came from, counted from 1."""

    source: str
    target: str
    line: int


def one_line(text: str) -> str:
    """Replace each line break, and the white space around it, by one space."""
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
    """Return the error that states how many lines each file has."""
    num_source, num_target = (more, fewer) if source_has_more else (fewer, more)
    return DataError(
        f"The files must have the same number of lines: {source.name} has {num_source:,}, "
        f"{target.name} has {num_target:,}.",
        "Find the line that is missing from one of them: from there on, every pair is wrong.",
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


def jsonl_sides(source: Input, asked: Languages | None) -> Languages:
    """Return the keys of source and target, by the first record; empty ones if there is none."""
    for _, record, where in records_of(source):
        return choose_sides(list(json_sides(record, where)), asked, where)
    return asked or ("", "")


def read_jsonl(source: Input, languages: Languages) -> Iterator[Pair]:
    """Read one object a line, `{"source", "target"}` or `{"translation": {"en", "de"}}`; skip blank lines."""
    for line, record, where in records_of(source):
        sides = json_sides(record, where)
        left, right = (one_line(json_text(sides, name, where)) for name in languages)
        yield Pair(left, right, line)


def json_sides(record: Record, where: str) -> Record:
    """Return the object that holds the two sides of a record."""
    sides = record.get("translation", record)
    if not isinstance(sides, dict):
        raise DataError(
            f"{where}: 'translation' must be a JSON object, found {sides!r:.40}.",
            "It must have a key for each of the two languages.",
        )
    return sides


# Parquet


def parquet_sides(source: Input, asked: Languages | None) -> Languages:
    """Return the columns, or the languages of a `translation` column, that are source and target."""
    with opened_parquet(source) as table:
        return choose_sides(list(parquet_columns(table.schema_arrow.empty_table())), asked, source.name)


def read_parquet(source: Input, languages: Languages) -> Iterator[Pair]:
    """Read two columns, or two languages of a `translation` column."""
    line = 0
    with opened_parquet(source) as table:
        for batch in table.iter_batches(batch_size=4096):
            columns = parquet_columns(batch)
            for left, right in zip(*(columns[name].to_pylist() for name in languages), strict=True):
                line += 1
                yield parquet_pair(left, right, line, source.name)


@contextmanager
def opened_parquet(source: Input) -> Iterator[pyarrow.parquet.ParquetFile]:
    """Open a table; errors name the file."""
    arrow, parquet = need("pyarrow", "Reading Parquet"), need("pyarrow.parquet", "Reading Parquet")
    with naming(source.name), source.open() as file:
        try:
            yield parquet.ParquetFile(file)
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            raise DataError(f"{source.name}: damaged Parquet ({error}).", "Write the file again.") from error


def parquet_columns(batch: pyarrow.RecordBatch | pyarrow.Table) -> dict[str, pyarrow.Array]:
    """Return the columns of some rows, or the fields of their column `translation`."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    translation = columns.get("translation")
    if translation is None or translation.type.num_fields < 2:
        return columns
    return dict(zip((field.name for field in translation.type), translation.flatten(), strict=True))


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
    """Read the translated messages of a PO file, without fuzzy, obsolete and untranslated ones."""
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
    """Pair the singular with the first form, and the plural with the last, which is for large numbers."""
    return [(singular, forms[min(forms)]), (plural, forms[max(forms)])] if forms else []
