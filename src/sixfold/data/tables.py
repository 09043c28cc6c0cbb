"""Tables: CSV, TSV and JSON Lines as rows of named columns, streamed, each with the line where it begins.

The delimiter and whether there is a header are told by the first rows. A cell of CSV may hold line breaks between
quotes; quotes in TSV are text like any other.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import mean

from sixfold.data.content import Record, format_of_content, format_of_name, records_of, refuse_binary
from sixfold.data.streams import Input, first_bytes, lines_of
from sixfold.errors import DataError

DELIMITERS = ("\t", ",", ";", "|")
LARGEST_CELL = 1 << 22  # characters; where a quote is never closed, the rest of the file is one cell
LOOKED_AT = 200  # rows that tell the delimiter and the header
LONGEST_NAME, MOST_WORDS_OF_NAME = 40, 4  # of a column
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row by the names of their columns, and where it stands."""

    cells: Mapping[str, object]  # text, or what JSON holds
    line: int
    where: str  # what messages call this place


@dataclass(frozen=True)
class Table:
    """A table that can be read again and again: every `iter()` starts from the beginning."""

    source: Input
    columns: tuple[str, ...]
    delimiter: str  # empty for JSON Lines
    has_header: bool

    def __iter__(self) -> Iterator[Row]:
        return rows_of_cells(self) if self.delimiter else rows_of_records(self.source)


def open_table(source: Input, known_names: Collection[str]) -> Table:
    """Open a table; a first row that holds one of the known names is a header."""
    refuse_binary(source)
    head = first_bytes(source)
    if "jsonl" in (format_of_name(source.path), format_of_content(head)):
        return Table(source, columns_of_records(source), delimiter="", has_header=False)
    rows, delimiter = sample_rows(source)
    if not rows:
        raise DataError(f"{source.name} has no rows.", "A table has a row for each example.")
    has_header = is_header(rows, known_names)
    columns = tuple(name.strip() for name in rows[0]) if has_header else numbered(len(rows[0]))
    if len(set(columns)) < len(columns):
        raise DataError(f"{source.name}: two columns have the same name.", f"Its header is: {', '.join(columns)}")
    return Table(source, columns, delimiter, has_header)


def numbered(count: int) -> tuple[str, ...]:
    """Return the names of columns that have none: 1, 2, …"""
    return tuple(str(number) for number in range(1, count + 1))


def columns_of_records(source: Input) -> tuple[str, ...]:
    """Return the keys of the first records of JSON Lines."""
    records = (record for _, record, _ in islice(records_of(source), LOOKED_AT))
    return tuple(dict.fromkeys(name for record in records for name in record))


def rows_of_records(source: Input) -> Iterator[Row]:
    """Yield the records of JSON Lines."""
    for line, record, where in records_of(source):
        yield Row(record, line, where)


def rows_of_cells(table: Table) -> Iterator[Row]:
    """Yield the rows below the header."""
    rows = cells_of(table.source, lines_of(table.source), table.delimiter)
    for number, (line, cells) in enumerate(rows):
        if number == 0 and table.has_header:
            continue
        where = f"{table.source.name}, line {line:,}"
        if len(cells) != len(table.columns):
            raise DataError(
                f"{where}: found {counted(len(cells))}, where the table has {len(table.columns)}.",
                f"The columns are: {', '.join(table.columns)}. Put text that holds the delimiter into quotes.",
            )
        yield Row(dict(zip(table.columns, cells, strict=True)), line, where)


def counted(count: int) -> str:
    """Return a number of columns in words."""
    return "1 column" if count == 1 else f"{count} columns"


def cells_of(source: Input, lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row, and the line where it begins; blank lines are skipped."""
    csv.field_size_limit(LARGEST_CELL)
    with_ends = (line + "\n" for line in lines)
    if delimiter == "\t":
        reader = csv.reader(with_ends, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(with_ends, delimiter=delimiter, strict=True)
    begin = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{source.name}, line {begin:,}: not a row of CSV ({error}).",
            'Look for a quote that is not closed; a quote inside a quoted cell is written twice: "".',
        ) from error


def sample_rows(source: Input) -> tuple[list[list[str]], str]:
    """Return the first rows and the delimiter that divides them most evenly; one column if none does."""
    lines = list(islice(lines_of(source), LOOKED_AT))
    found: dict[str, list[list[str]]] = {}
    for delimiter in DELIMITERS:
        try:
            found[delimiter] = [cells for _, cells in cells_of(source, lines, delimiter)]
        except DataError:
            continue  # a row that goes on behind these lines, or another delimiter's
    likely = [each for each in DELIMITERS if each in found and is_even(found[each])]
    by_name = {"tsv": "\t"}.get(format_of_name(source.path), "," if source.path.suffix == ".csv" else "")
    chosen = next(iter([*([by_name] if by_name in likely else []), *likely]), by_name or "\t")
    rows = found.get(chosen)
    return (first_rows(source, chosen) if rows is None else rows), chosen


def first_rows(source: Input, delimiter: str) -> list[list[str]]:
    """Return the first rows, however many lines they take."""
    return [cells for _, cells in islice(cells_of(source, lines_of(source), delimiter), LOOKED_AT)]


def is_even(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether all rows have as many cells, and more than one."""
    return len({len(row) for row in rows}) == 1 and len(rows[0]) > 1


def is_header(rows: Sequence[Sequence[str]], known_names: Collection[str]) -> bool:
    """Return whether the first row names the columns: by a known name, or because it is unlike those below it."""
    first, below = [cell.strip() for cell in rows[0]], rows[1:]
    if any(cell.casefold() in known_names for cell in first):
        return True
    if len(below) < 2 or not all(map(is_name, first)) or len(set(first)) < len(first):
        return False
    columns = [[row[place] for row in below if len(row) == len(first)] for place in range(len(first))]
    longest = max(range(len(first)), key=lambda place: mean(map(len, columns[place] or [""])))
    is_new = all(name not in column for name, column in zip(first, columns, strict=True))
    return is_new and 2 * len(first[longest]) < mean(map(len, columns[longest] or [""]))


def is_name(cell: str) -> bool:
    """Return whether a cell can be the name of a column."""
    return 0 < len(cell) <= LONGEST_NAME and len(cell.split()) <= MOST_WORDS_OF_NAME and not is_number(cell)


def is_number(text: str) -> bool:
    """Return whether a text is a number in digits, and not too large to be counted with."""
    return NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def text_of_cell(row: Row, name: str) -> str:
    """Return a cell as text; numbers of JSON count as text."""
    cell = row.cells.get(name)
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return str(cell)
    if not isinstance(cell, str):
        raise DataError(f"{row.where}: {name!r} must be text, found {cell!r:.40}.", has_columns(row.cells))
    try:
        cell.encode()
    except UnicodeEncodeError as error:  # JSON can escape half of a character
        raise DataError(
            f"{row.where}: {name!r} has half of a surrogate pair.", "Write whole characters."
        ) from error
    return cell


def has_columns(cells: Record | Mapping[str, object]) -> str:
    """Return a hint that lists what there is."""
    return f"It has: {', '.join(cells)}."
