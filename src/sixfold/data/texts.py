"""Read documents from files and folders of plain text or of JSON Lines with `text`.

A long document comes in pieces, so that memory does not grow with it. `data.documents` says what separates
documents: the files themselves, blank lines, or a separator such as <|endoftext|> on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sixfold.data.content import (
    files_below,
    format_of_name,
    is_binary,
    json_text,
    kind_of,
    parse_record,
    refuse_binary,
    rows_of,
)
from sixfold.data.streams import Input, find_input, first_bytes, text_of
from sixfold.errors import DataError

PIECE_CHARACTERS = 1 << 16
KNOWN_MARKS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")
LINES = re.compile(r"[^\n]*\n|[^\n]+")
SEPARATORS = "what separates documents: auto, files, blank_lines, or a string that has a line of its own"

IsSeparator = Callable[[str], bool]  # of the line


@dataclass(frozen=True, slots=True)
class Piece:
    """A document, or a part of a long one."""

    text: str
    line: int  # where it begins in the file, counted from 1
    is_first: bool = True
    is_last: bool = True


class Assembler:
    """Joins blocks of text to documents, and yields long documents in pieces."""

    def __init__(self) -> None:
        self.line = 1  # of the next text
        self.begin("")

    def begin(self, text: str, is_first: bool = True) -> None:
        """Begin a document, or the next piece of one."""
        self.waiting, self.length = [text] if text else [], len(text)
        self.first_line, self.is_first = self.line - text.count("\n"), is_first

    def add(self, text: str) -> Iterator[Piece]:
        """Add to the current document, and yield the pieces that are long enough."""
        if not self.waiting:
            self.first_line = self.line
        self.waiting.append(text)
        self.length += len(text)
        self.line += text.count("\n")
        if self.length >= 2 * PIECE_CHARACTERS:
            whole = "".join(self.waiting)
            while len(whole) >= 2 * PIECE_CHARACTERS:
                cut = place_to_cut(whole, PIECE_CHARACTERS)
                yield Piece(whole[:cut], self.first_line, self.is_first, is_last=False)
                self.begin(whole := whole[cut:], is_first=False)

    def end(self, keeps_blank: bool = False) -> Iterator[Piece]:
        """Yield the rest of the document that is open; a blank one is none, unless it is to be kept."""
        text = "".join(self.waiting)
        if keeps_blank or not self.is_first or text.strip():
            yield Piece(text, self.first_line, self.is_first)
        self.begin("")

    def skip(self, separator: str) -> None:
        """Count a line that belongs to no document."""
        self.line += separator.count("\n")


def stretches_of(piece: Piece, longest: int) -> Iterator[Piece]:
    """Yield a piece in stretches of at most so many characters."""
    text, is_first = piece.text, piece.is_first
    while len(text) > longest:
        cut = place_to_cut(text, longest)
        yield Piece(text[:cut], piece.line, is_first, is_last=False)
        text, is_first = text[cut:], False
    yield Piece(text, piece.line, is_first, piece.is_last)


def place_to_cut(text: str, near: int) -> int:
    """Return where to end a piece: before the last single space up to `near`, so that no subword is cut."""
    place = near
    while (place := text.rfind(" ", near // 2, place)) > 0:
        if not text[place - 1].isspace() and not text[place + 1].isspace():
            return place
    return near


def pieces_of_file(source: Input, is_separator: IsSeparator | None, keeps_blank: bool = False) -> Iterator[Piece]:
    """Yield the documents of a plain text file; without separators it is one document."""
    assembler, begins_line = Assembler(), True
    for text in text_of(source):
        for stretch in [text] if is_separator is None else LINES.findall(text):
            if is_separator is not None and begins_line and is_separator(stretch):
                yield from assembler.end(keeps_blank and assembler.line > 1)
                assembler.skip(stretch)
            else:
                yield from assembler.add(stretch)
            begins_line = stretch.endswith("\n")
    yield from assembler.end(keeps_blank and is_separator is None)


def pieces_of_records(source: Input) -> Iterator[Piece]:
    """Yield the documents of a JSON Lines file: the `text` of each record."""
    for line, text, where in rows_of(source):
        yield from pieces_of_row(line, text, where)


def pieces_of_row(line: int, text: str, where: str, keeps_blank: bool = False) -> Iterator[Piece]:
    """Yield the document of a line of JSON."""
    assembler = Assembler()
    for piece in (
        *assembler.add(json_text(parse_record(text, where), "text", where)),
        *assembler.end(keeps_blank),
    ):
        yield Piece(piece.text, line, piece.is_first, piece.is_last)


@dataclass(frozen=True)
class TextFile:
    """A file of documents: plain text, or JSON Lines whose `text` they are."""

    source: Input
    is_records: bool
    mark: str  # what separates documents of plain text

    def pieces(self, keeps_blank: bool = False) -> Iterator[Piece]:
        """Yield the documents; a check looks at blank ones too, unless blank lines separate them."""
        if self.is_records:
            return pieces_of_records(self.source)
        return pieces_of_file(self.source, separator_of(self.mark), keeps_blank and self.mark != "blank_lines")


@dataclass(frozen=True)
class Texts:
    """Documents that can be read repeatedly: every `iter()` starts from the beginning."""

    files: tuple[TextFile, ...]
    left_out: tuple[Path, ...] = ()  # files of folders that are not text

    @property
    def paths(self) -> tuple[Path, ...]:
        """The input files in order; standard input is `-`."""
        return tuple(file.source.path for file in self.files)

    @property
    def separation(self) -> str:
        """How documents are separated, in words."""
        return separation(self.files[0].mark, [file.is_records for file in self.files])

    def __iter__(self) -> Iterator[Piece]:
        for file in self.files:
            yield from file.pieces()


def open_texts(inputs: Iterable[str | Path | Input], documents: str = "auto") -> Texts:
    """Open files and folders of text; `documents` says what separates documents."""
    found, left_out = text_files(inputs)
    are_records = [kind_of(source) == "texts" for source in found]
    plain = [source for source, is_records in zip(found, are_records, strict=True) if not is_records]
    mark = find_mark(plain) if documents == "auto" else documents
    files = (TextFile(source, is_records, mark) for source, is_records in zip(found, are_records, strict=True))
    return Texts(tuple(files), tuple(left_out))


def text_files(inputs: Iterable[str | Path | Input]) -> tuple[list[Input], list[Path]]:
    """Return all text files, those in folders sorted by name, and the files in folders that are not text."""
    found, left_out = list[Input](), list[Path]()
    for path in inputs:
        if isinstance(path, Input) or not Path(path).is_dir():
            found.append(find_input(path))
            refuse_binary(found[-1])
            refuse_other_json(found[-1])
            continue
        inside = files_below(Path(path))
        is_text = [file.stat().st_size > 0 and not is_binary(first_bytes(Input(file))) for file in inside]
        found += [Input(file) for file, is_good in zip(inside, is_text, strict=True) if is_good]
        left_out += [file for file, is_good in zip(inside, is_text, strict=True) if not is_good]
    if not found:
        raise DataError("There are no text files.", "Give text files, or folders that contain some.")
    return found, left_out


def refuse_other_json(source: Input) -> None:
    """Raise if a file has the name of JSON Lines and something else in it; text must be given as text."""
    if format_of_name(source.path) == "jsonl" and kind_of(source) == "plain":
        raise DataError(
            f"{source.name} is named as JSON Lines, and its first line is no JSON object.",
            f"Write one object a line: jq -c '.[]' {source.name} > NEW.jsonl; plain text needs another name.",
        )


def find_mark(inputs: Sequence[Input]) -> str:
    """Return the known separator that has lines of its own at the beginning of some file, or `files`."""
    for source in inputs:
        lines = first_bytes(source).decode(errors="replace").splitlines()
        if found := next((mark for mark in KNOWN_MARKS if mark in lines), None):
            return found
    return "files"


def separator_of(mark: str) -> IsSeparator | None:
    """Return a function that tells whether a line separates two documents."""
    if mark == "files":
        return None
    if mark == "blank_lines":
        return lambda line: not line.strip()
    return lambda line: line.strip() == mark


def separation(mark: str, are_records: Sequence[bool]) -> str:
    """Return in words how documents are separated."""
    if all(are_records):
        return "one per record"
    plain = {"files": "one per file", "blank_lines": "separated by blank lines"}
    said = plain.get(mark, f"separated by lines that are {mark}")
    return f"{said}, in JSON Lines one per record" if any(are_records) else said
