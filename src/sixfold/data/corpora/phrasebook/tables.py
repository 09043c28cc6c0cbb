"""Tables of words as text files that people edit, read with an error that names the damaged line.

Lines that begin with `#` explain the table, the next line names the columns, and every other line is one word
with its forms, separated by tabs; a dash is a form that does not exist or is never used.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from sixfold.errors import DataError

HINT = (
    "Separate the fields by single tabs and write a dash for a form that does not exist; "
    "the lines with # explain the columns. To undo an edit, install Sixfold again."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table by its columns; a dash has become an empty field."""

    place: str
    fields: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.fields[column]

    def one(self, column: str, known: Collection[str]) -> str:
        """Return a field that must be a known word."""
        if self[column] not in known:
            raise self.error(column, f"one of: {', '.join(known)}")
        return self[column]

    def several(self, column: str, known: Collection[str]) -> tuple[str, ...]:
        """Return the words of a field, each of which must be known."""
        words = tuple(self[column].split())
        if not all(word in known for word in words):
            raise self.error(column, f"words from this list: {', '.join(known)}")
        return words

    def error(self, column: str, expected: str) -> DataError:
        """Say what a column should hold."""
        return damaged(self.place, f"{column} should be {expected}; it is {self[column] or '-'!r}")


def damaged(place: str, problem: str) -> DataError:
    """Say where a table is wrong, and how its lines are written."""
    return DataError(f"{place}: {problem}.", HINT)


def read_table(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read the lines of a table; a column whose name ends with `?` may hold a dash."""
    names = [column.rstrip("?") for column in columns]
    lines = [
        (f"{path}, line {number}", line.split("\t"))
        for number, line in enumerate(read_text(path).split("\n"), start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines or lines[0][1] != names:
        raise damaged(str(path), f"the first line without # should name the columns {', '.join(names)}")
    if len(lines) == 1:
        raise damaged(str(path), "the table should have a line for each word; it has none")
    return [read_row(place, fields, columns) for place, fields in lines[1:]]


def read_text(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(str(path), f"the file cannot be read ({error})") from error


def read_row(place: str, fields: Sequence[str], columns: Sequence[str]) -> Row:
    """Read one line: as many fields as columns, and a dash only where it may stand."""
    if len(fields) != len(columns):
        raise damaged(place, f"expected {len(columns)} fields, found {len(fields)}: {' | '.join(fields)}")
    for column, field in zip(columns, fields, strict=True):
        is_words = field and field == " ".join(field.split())
        if not is_words or (field == "-" and not column.endswith("?")):
            problem = f"{column.rstrip('?')} should be words with single spaces between them; it is {field!r}"
            raise damaged(place, problem)
    names = (column.rstrip("?") for column in columns)
    return Row(place, {name: "" if field == "-" else field for name, field in zip(names, fields, strict=True)})


def named(rows: Sequence[Row], column: str = "english") -> dict[str, Row]:
    """Return the lines by the word in a column, which must be another one in every line."""
    found: dict[str, Row] = {}
    for row in rows:
        if row[column] in found:
            raise row.error(column, f"a word that no other line has ({found[row[column]].place} has it)")
        found[row[column]] = row
    return found
