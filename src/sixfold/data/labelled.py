"""Labelled texts: a table with a text and a label, two texts and a label, or folders named after their class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean

from sixfold.data.column_names import KNOWN_NAMES, LABEL_NAMES, PAIR_NAMES, TEXT_NAMES
from sixfold.data.content import files_below, is_binary
from sixfold.data.streams import FileOrInput, Input, find_input, first_bytes, text_of
from sixfold.data.tables import LOOKED_AT, Row, Table, has_columns, open_table, text_of_cell
from sixfold.errors import DataError
from sixfold.settings import suggestion

MOST_LABELS = 200  # different ones among the first rows: a column with more is no column of labels
LONGEST_LABEL = 60  # characters


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text, or two, with the labels that people gave it as they wrote them."""

    text: str
    second: str | None
    labels: tuple[str, ...]
    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, or both texts."""
        return (self.text,) if self.second is None else (self.text, self.second)


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold what; names that are empty are to be found."""

    text: str = ""
    second: str = ""  # of two texts that are judged together
    label: str = ""
    separator: str = ""  # between several labels in one cell; empty: a cell is one label


class LabelledTexts(ABC):
    """Labelled texts that can be read again and again: every `iter()` starts from the beginning."""

    left_out: tuple[Path, ...] = ()  # files of folders that are not text

    @property
    @abstractmethod
    def paths(self) -> tuple[Path, ...]:
        """The input files in order; standard input is `-`."""

    @property
    @abstractmethod
    def described(self) -> str:
        """Where text and label come from, in words."""

    @property
    def parts(self) -> Sequence[LabelledTexts]:
        """The texts of each file on their own."""
        return (self,)

    @abstractmethod
    def __iter__(self) -> Iterator[LabelledText]:
        """Yield the texts in the order of the files."""


@dataclass(frozen=True)
class LabelledTable(LabelledTexts):
    """The labelled texts of a table."""

    table: Table
    columns: Columns

    @property
    def paths(self) -> tuple[Path, ...]:
        """The file."""
        return (self.table.source.path,)

    @property
    def described(self) -> str:
        """Which columns are read."""
        texts = [name for name in (self.columns.text, self.columns.second) if name]
        return f"text from {' and '.join(map(column, texts))}, label from {column(self.columns.label)}"

    def __iter__(self) -> Iterator[LabelledText]:
        for row in self.table:
            yield labelled(row, self.columns)


def column(name: str) -> str:
    """Return how a column is called in messages."""
    return f"column {name}" if name.isdecimal() else f"{name!r}"


def labelled(row: Row, columns: Columns) -> LabelledText:
    """Return the text and the labels of a row."""
    second = text_of_cell(row, columns.second) if columns.second else None
    return LabelledText(text_of_cell(row, columns.text), second, labels_of(row, columns), row.line)


def labels_of(row: Row, columns: Columns) -> tuple[str, ...]:
    """Return the labels of a row: those of a list, or of a cell."""
    cell = row.cells.get(columns.label)
    if isinstance(cell, bool):
        return (str(cell).lower(),)
    if isinstance(cell, list):
        rows = (Row({columns.label: each}, row.line, row.where) for each in cell)
        return tuple(one_label(text_of_cell(each, columns.label), row) for each in rows)
    text = text_of_cell(row, columns.label)
    if columns.separator:
        return tuple(each.strip() for each in text.split(columns.separator) if each.strip())
    return (one_label(text, row),)


def one_label(text: str, row: Row) -> str:
    """Return a label without the blanks around it; there must be one."""
    label = " ".join(text.split())
    if not label:
        raise DataError(f"{row.where}: the label is empty.", "Every text needs a label.")
    return label


@dataclass(frozen=True)
class LabelledFolder(LabelledTexts):
    """Text files in folders named after their class."""

    files: tuple[tuple[Path, str], ...]  # each with its class
    left_out: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in the order of their names."""
        return tuple(path for path, _ in self.files)

    @property
    def parts(self) -> Sequence[LabelledTexts]:
        """The text of each file."""
        return [LabelledFolder((each,)) for each in self.files]

    @property
    def described(self) -> str:
        """How texts are labelled."""
        return "one text a file, labelled by the name of its folder"

    def __iter__(self) -> Iterator[LabelledText]:
        for path, label in self.files:
            yield LabelledText("".join(text_of(Input(path))), None, (label,), 1)


@dataclass(frozen=True)
class JoinedLabelled(LabelledTexts):
    """The labelled texts of several files, one after the other."""

    joined: tuple[LabelledTexts, ...]

    @property
    def parts(self) -> Sequence[LabelledTexts]:
        """The texts of each file on their own."""
        return [part for each in self.joined for part in each.parts]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of all parts."""
        return tuple(path for part in self.parts for path in part.paths)

    @property
    def described(self) -> str:
        """Where text and label come from."""
        return "; ".join(dict.fromkeys(part.described for part in self.parts))

    def __iter__(self) -> Iterator[LabelledText]:
        for part in self.parts:
            yield from part


TO_BE_FOUND = Columns()


def open_labelled(inputs: Sequence[FileOrInput], columns: Columns = TO_BE_FOUND) -> LabelledTexts:
    """Open tables of labelled texts, or folders of text files in folders named after their class."""
    parts = tuple(open_one(each, columns) for each in inputs)
    return parts[0] if len(parts) == 1 else JoinedLabelled(parts)


def open_one(given: FileOrInput, columns: Columns) -> LabelledTexts:
    """Open a table, or a folder of folders."""
    if not isinstance(given, Input) and Path(given).is_dir():
        return open_folder(Path(given))
    table = open_table(find_input(given), KNOWN_NAMES)
    return LabelledTable(table, find_columns(table, columns))


def is_folder_of_classes(path: FileOrInput) -> bool:
    """Return whether a folder holds folders of files and no files of its own."""
    if isinstance(path, Input) or not Path(path).is_dir():
        return False
    inside = [each for each in Path(path).iterdir() if not each.name.startswith(".")]
    return len(inside) > 1 and all(each.is_dir() for each in inside)


def open_folder(folder: Path) -> LabelledFolder:
    """Open the text files in the folders below a folder."""
    files, left_out = list[tuple[Path, str]](), list[Path]()
    for path in files_below(folder):
        place = path.relative_to(folder).parts
        is_text = len(place) > 1 and path.stat().st_size > 0 and not is_binary(first_bytes(Input(path)))
        if is_text:
            files.append((path, place[0]))
        else:
            left_out.append(path)
    if len({label for _, label in files}) < 2:
        raise DataError(
            f"{folder} does not hold at least two folders of text files.",
            "Put the texts of each class into a folder of its name, such as reviews/good/1.txt.",
        )
    return LabelledFolder(tuple(files), tuple(left_out))


def find_columns(table: Table, asked: Columns) -> Columns:
    """Return the columns of text and label: those that are asked for, known by name, or told by what they hold."""
    for name in (asked.text, asked.second, asked.label):
        if name and name not in table.columns:
            problem = f"{table.source.name} has no column {name!r}."
            raise DataError(problem, suggestion(name, table.columns))
    if len(table.columns) < 2:
        raise DataError(f"{table.source.name} has one column.", "A row is a text and its label.")
    rows = list(islice(table, LOOKED_AT))
    label = asked.label or label_column(table, rows, taken=(asked.text, asked.second))
    rest = [name for name in table.columns if name != label]
    text, second = (asked.text, asked.second) if asked.text else text_columns(table, rows, rest, asked.second)
    return Columns(text, second, label, asked.separator)


def label_column(table: Table, rows: Sequence[Row], taken: Sequence[str]) -> str:
    """Return the column of labels, by its name or because few different short values stand in it."""
    named = by_name(table.columns, LABEL_NAMES)
    if named and named not in taken:
        return named
    different = {name: {str(row.cells.get(name)) for row in rows} for name in table.columns if name not in taken}
    likely = {name: values for name, values in different.items() if are_labels(values, len(rows))}
    if not likely:
        raise DataError(
            f"{table.source.name}: no column looks like labels.",
            f"Name it: --set data.label=NAME. {has_columns(dict.fromkeys(table.columns))}",
        )
    return min(likely, key=lambda name: len(likely[name]))


def are_labels(values: set[str], num_rows: int) -> bool:
    """Return whether the different values of a column can be labels: short, and repeated."""
    is_repeated = 1 < len(values) <= max(2, min(MOST_LABELS, num_rows // 2))
    return is_repeated and all(len(value) <= LONGEST_LABEL for value in values)


def text_columns(table: Table, rows: Sequence[Row], rest: Sequence[str], second: str) -> tuple[str, str]:
    """Return the column of the text, and of a second text that belongs to it, or nothing."""
    lower = {name.casefold(): name for name in rest}
    if not second:
        for left, right in PAIR_NAMES:
            if left in lower and right in lower:
                return lower[left], lower[right]
    if named := by_name([name for name in rest if name != second], TEXT_NAMES):
        return named, second
    lengths = {name: mean_length(rows, name) for name in rest if name != second}
    if not lengths:
        raise DataError(f"{table.source.name} has a label but no text.", "A row is a text and its label.")
    return max(lengths, key=lambda name: lengths[name]), second


def by_name(columns: Sequence[str], known: Sequence[str]) -> str:
    """Return the first column with a known name, or nothing."""
    lower: Mapping[str, str] = {name.casefold().strip(): name for name in columns}
    return next((lower[name] for name in known if name in lower), "")


def mean_length(rows: Sequence[Row], name: str) -> float:
    """Return how long the texts of a column are."""
    return mean(len(str(row.cells.get(name, ""))) for row in rows) if rows else 0.0
