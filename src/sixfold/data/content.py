"""What a file holds, told by its beginning: pairs, texts, conversations, labelled or tagged texts, questions, or
plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from sixfold.data.column_names import are_labelled
from sixfold.data.streams import WIDE_MARKS, FileOrInput, Input, find_input, first_bytes, lines_of
from sixfold.errors import DataError

Kind = Literal["pairs", "texts", "conversations", "pairs or texts", "labels", "tags", "questions", "plain"]
Record = dict[str, Any]  # a line of JSON

MOST_LOOKED_AT = 100  # files of a folder
MOST_ROWS = 1000  # that are looked at for tags
TAG = re.compile(rb"O|[BIES]-\S+")  # of a word inside or outside of an entity
SPAN_NAMES = frozenset(("spans", "entities"))
IS_SQUAD = re.compile(rb'\s*\{\s*"(version|data)"')
COMPRESSED_SUFFIXES = frozenset({".gz", ".xz", ".zst"})
FORMAT_OF_SUFFIX = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".tmx": "tmx", ".parquet": "parquet", ".po": "po", ".pot": "po",
}  # fmt: skip


def format_of_name(path: Path) -> str:
    """Return the format that a file name's suffix says, or an empty string."""
    name = Path(path.name.lower())
    return FORMAT_OF_SUFFIX.get(Path(name.stem if name.suffix in COMPRESSED_SUFFIXES else name).suffix, "")


def format_of_content(head: bytes) -> str:
    """Return the format recognised at the beginning of a file, or an empty string."""
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff").lstrip()
    if head.startswith(b"PAR1\x15"):
        return "parquet"  # the fifth byte begins its first header, so that a text may begin with PAR1
    if text.startswith("<") and "<tmx" in text:
        return "tmx"
    if text.startswith("msgid ") or "\nmsgid " in text:
        return "po"
    first_line = text.partition("\n")[0]
    if first_record(first_line) is not None:
        return "jsonl"
    return "tsv" if "\t" in first_line else ""


def first_record(text: str) -> Record | None:
    """Return the JSON object on the first line of a text, or None; a sentence may begin with a brace too."""
    line = text.lstrip("\ufeff \t\r\n").partition("\n")[0]
    try:
        record = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def kinds_of(paths: Iterable[FileOrInput]) -> set[Kind]:
    """Return the kinds of these files, and of the first files in folders."""
    files = [file for path in paths for file in ([path] if isinstance(path, Input) else few_files(Path(path)))]
    return {kind_of(find_input(file)) for file in files}


def few_files(path: Path) -> list[Path]:
    """Return the file, or the first files of a folder that are not empty."""
    if not path.is_dir():
        return [path]
    return [file for file in files_below(path) if file.stat().st_size][:MOST_LOOKED_AT]


def files_below(folder: Path) -> list[Path]:
    """Return the files in a folder and its subfolders, without hidden ones."""
    inside = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in inside if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def kind_of(source: Input) -> Kind:
    """Return the kind of a file."""
    head = first_bytes(source)
    named, found = format_of_name(source.path), format_of_content(head)
    if named == "jsonl" or found == "jsonl":
        record = first_record(head.decode("utf-8", errors="replace")) or first_long_record(source)
        if record is None:
            return "questions" if IS_SQUAD.match(head) else "plain"
        return kind_of_record(record)
    lines = whole_lines(head)
    if has_tags(lines):
        return "tags"
    if named == "csv" or has_labels(lines):
        return "labels"
    if named or found not in ("tsv", ""):
        return "pairs"
    return "pairs" if has_tabs_throughout(lines) and not is_binary(head) else "plain"


def first_long_record(source: Input) -> Record | None:
    """Return the JSON object on the first line of a file, if there is one."""
    return first_record(next(lines_of(source), ""))


def kind_of_record(record: Record) -> Kind:
    """Return the kind of a file with this first record; two texts, one of them named `text`, may be either."""
    if {"tokens", "tags"} <= record.keys() or ("text" in record and not record.keys().isdisjoint(SPAN_NAMES)):
        return "tags"
    if "data" in record or {"question", "context"} <= record.keys():
        return "questions"
    if are_labelled(list(record)):
        return "labels"
    if isinstance(record.get("messages"), list) or {"prompt", "response"} <= record.keys():
        return "conversations"
    if {"source", "target"} <= record.keys() or "translation" in record or "text" not in record:
        return "pairs"
    is_pair = len(record) == 2 and all(isinstance(value, str) for value in record.values())
    return "pairs or texts" if is_pair else "texts"


def whole_lines(head: bytes) -> list[bytes]:
    """Return the lines at the beginning of a file, but not one that goes on."""
    return head.split(b"\n")[: -1 if b"\n" in head else None]


def has_tabs_throughout(lines: Sequence[bytes]) -> bool:
    """Return whether every line at the beginning of a file has exactly one tab."""
    return all(line.count(b"\t") == 1 for line in lines)


def has_labels(lines: Sequence[bytes]) -> bool:
    """Return whether the first line names a column of texts and one of labels."""
    header = lines[0].decode("utf-8", errors="replace") if lines else ""
    return any(are_labelled(header.split(delimiter)) for delimiter in ("\t", ",", ";"))


def has_tags(lines: Sequence[bytes]) -> bool:
    """Return whether lines are words with their tags, in columns, with blank lines between sentences."""
    rows = [line.split(b"\t" if b"\t" in line else None) for line in lines[:MOST_ROWS] if line.strip()]
    rows = [row for row in rows if not row[0].startswith((b"#", b"-DOCSTART-")) or len(row) == 2]
    if len(rows) < 2 or {len(row) for row in rows} in ({0}, {1}) or len({len(row) for row in rows}) > 1:
        return False
    if all(TAG.fullmatch(row[-1].strip()) for row in rows):
        return True
    has_sentences = any(not line.strip() for line in lines[:MOST_ROWS])
    return (
        has_sentences
        and all(b"\t" in line for line in lines[:MOST_ROWS] if line.strip())
        and not any(b" " in cell.strip() for row in rows for cell in (row[0], row[-1]))
    )


def is_binary(head: bytes) -> bool:
    """Return whether this beginning of a file is not text."""
    return b"\0" in head[:8192] and not head.startswith(WIDE_MARKS)


def refuse_binary(source: Input) -> None:
    """Raise if a file is not text."""
    if is_binary(first_bytes(source)):
        raise DataError(f"{source.name} is not text: it contains NUL bytes.", "Give plain text files in UTF-8.")


def rows_of(source: Input) -> Iterator[tuple[int, str, str]]:
    """Yield the lines of a file of JSON Lines that are not blank, each with its number and its place in words."""
    for line, text in enumerate(lines_of(source), start=1):
        if text.strip():
            yield line, text, f"{source.name}, line {line:,}"


def records_of(source: Input) -> Iterator[tuple[int, Record, str]]:
    """Yield the objects of a JSON Lines file, each with its line number and its location for messages."""
    return ((line, parse_record(text, where), where) for line, text, where in rows_of(source))


def parse_record(text: str, where: str) -> Record:
    """Return the object of a line."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error}).", "Every line must be one JSON object.") from error
    if not isinstance(record, dict):
        raise DataError(
            f"{where}: expected a JSON object, found {text[:40]!r}.", "Every line must be one JSON object."
        )
    return record


def json_text(record: Record, name: str, where: str) -> str:
    """Return a text of a record; refuse one that cannot be encoded in UTF-8."""
    text = record.get(name)
    if not isinstance(text, str):
        raise DataError(f"{where}: {name!r} must be text, found {text!r:.40}.", f"It has: {', '.join(record)}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # JSON can escape half of a character
        raise DataError(f"{where}: {name!r} has half of a surrogate pair.", "Write whole characters.") from error
    return text
