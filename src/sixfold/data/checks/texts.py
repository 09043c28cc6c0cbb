"""The check of plain text: faults of lines, and of whole documents.

A line keeps its line break. One that is very long comes in parts, so that memory does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.checks.characters import CONTROL, DAMAGE, has_control_characters, has_encoding_damage
from sixfold.data.checks.mixture import Mixture
from sixfold.data.checks.passages import PASSAGE_WORDS, Passages
from sixfold.data.checks.repeats import Repeats
from sixfold.data.checks.report import (
    Batch,
    FaultKind,
    Lengths,
    LengthTally,
    Place,
    Report,
    Tally,
    batches_of,
    refuse,
    sorted_findings,
)
from sixfold.data.content import rows_of
from sixfold.data.hash_sets import SeenHashes, contains
from sixfold.data.streams import STANDARD_INPUT
from sixfold.data.texts import KNOWN_MARKS, LINES, Piece, TextFile, Texts, pieces_of_row
from sixfold.errors import DataError

VERY_LONG = 10_000  # characters of a line
PARAGRAPH = 100  # characters: a line that is as long is more than a row of a page

VERY_LONG_LINE = FaultKind(
    "very long line",
    f"Lines of {VERY_LONG:,} characters or more: is this text, or data, or a program without line breaks?",
    is_removed=False,
)
REPEATED = FaultKind(
    "repeated paragraph",
    f"The same line of {PARAGRAPH} characters or more stands earlier; a repeat only gives it more weight.",
)
PASSAGE = FaultKind(
    "passage of the test set",
    f"{PASSAGE_WORDS} words in a row are also in the test set, which would improve its score: remove these lines.",
)
MARK = FaultKind(
    "mark inside a document",
    "Such a line separates documents elsewhere, and is read as text here: if it does so here too, "
    "--set 'data.documents=<the line>'",
    is_removed=False,
)
EMPTY = FaultKind("empty document", "There is nothing to learn from it.", is_final=True)
DUPLICATE = FaultKind(
    "duplicate document",
    "The same text but for case and spacing stands earlier; a repeat only gives it more weight.",
)
TEST_DOCUMENT = FaultKind(
    "document of the test set", "The test set has this document, which would improve its score: remove it."
)
BOILERPLATE = "Lines that come again and again: headings, or headers and footers that are no part of the text?"


@dataclass(frozen=True, slots=True)
class Line:
    """A line, or a part of a very long one."""

    text: str  # with its line break
    begins: bool  # a document
    ends: bool  # a document
    goes_on: bool = False  # in the next part
    continues: bool = False  # the part before


@dataclass(frozen=True, slots=True)
class Document:
    """What is known of a document once it has been read."""

    digest: int  # of its text without differences of case and spacing
    num_words: int
    num_characters: int


LineBatch = Batch[Line]
DocumentBatch = Batch[Document]
Write = Callable[[LineBatch, DocumentBatch], object]  # the documents that end among these lines


def check_texts(
    texts: Texts,
    test: Texts | None = None,
    on_progress: OnProgress = no_progress,
    write: Write = lambda *_: None,
) -> Report:
    """Check every line and every document; `on_progress` gets the lines so far, `write` each batch of them."""
    check = TextCheck(None if test is None else HeldOutTexts(test))
    for batch in batches_of(located_lines(texts, check.documents.add_unreadable), num_characters):
        write(batch, check.add(batch))
        on_progress(check.lines.total)
    if not check.lines.total:
        raise DataError("There is no text to check.", "Give files that hold some.")
    return check.report(texts)


def num_characters(line: Line) -> int:
    """Return the length of a line."""
    return len(line.text)


# Lines


def located_lines(
    texts: Texts, on_unreadable: Callable[[Place, DataError], object]
) -> Iterator[tuple[Place, Line]]:
    """Yield all lines with their places; `on_unreadable` gets the records that cannot be read."""
    for file in texts.files:
        if not file.is_records:
            yield from lines_of_pieces(file, file.pieces(keeps_blank=True))
            continue
        for number, text, where in rows_of(file.source):
            try:
                pieces = [*pieces_of_row(number, text, where, keeps_blank=True)]
            except DataError as error:
                on_unreadable(Place(file.source.path, number), error)
                continue
            yield from lines_of_pieces(file, pieces)


def lines_of_pieces(file: TextFile, pieces: Iterable[Piece]) -> Iterator[tuple[Place, Line]]:
    """Yield the lines of documents; those of a record all stand where it does."""
    rest, number, begins, continues = "", 1, True, False
    for piece in pieces:
        if piece.is_first:
            rest, number, begins, continues = "", piece.line, True, False
        *whole, rest = LINES.findall(rest + piece.text) or [""]
        for text in whole:
            yield Place(file.source.path, number), Line(text, begins, ends=False, continues=continues)
            number, begins, continues = number + (not file.is_records), False, False
        goes_on = not piece.is_last
        if piece.is_last or len(rest) >= VERY_LONG:
            yield Place(file.source.path, number), Line(rest, begins, piece.is_last, goes_on, continues)
            rest, begins, continues = "", False, goes_on


# The check


class TextCheck:
    """What has been found so far."""

    def __init__(self, held_out: HeldOutTexts | None = None) -> None:
        self.held_out = held_out
        self.lines, self.documents = Tally[Line]("lines"), Tally[Document]("documents")
        self.line_lengths = LengthTally()
        self.document_lengths = LengthTally()
        self.seen, self.repeats, self.mixture = SeenHashes(), Repeats(), Mixture()
        self.reader = DocumentReader()

    def add(self, batch: LineBatch) -> DocumentBatch:
        """Mark and count lines, and return the documents that end among them, marked and counted too."""
        self.mark_lines(batch)
        documents = self.reader.ended(batch)
        self.mark_documents(documents)
        self.lines.add(batch, [number for number, line in enumerate(batch.examples) if line.continues])
        self.documents.add(documents)
        return documents

    def mark_lines(self, batch: LineBatch) -> None:
        """Mark the faults of lines."""
        texts = [line.text.strip() for line in batch.examples]
        for number, (line, text) in enumerate(zip(batch.examples, texts, strict=True)):
            if kinds := [*faults_of_line(line, text)]:
                batch.faults[number] = kinds
            self.mixture.add(batch.places[number], text, line.ends)
        came = self.repeats.add(texts, batch.places)
        batch.mark(REPEATED, came & np.array([len(text) >= PARAGRAPH for text in texts]))
        if self.held_out is not None:
            batch.mark(PASSAGE, self.held_out.passages.lines_in(texts, document_numbers(batch)))
        self.line_lengths.add([text for text in texts if text])

    def mark_documents(self, documents: DocumentBatch) -> None:
        """Mark the faults of documents."""
        examples = documents.examples
        if not examples:
            return
        digests = np.array([each.digest for each in examples], dtype=np.uint64)
        documents.mark(EMPTY, np.array([each.num_words == 0 for each in examples]))
        documents.mark(DUPLICATE, self.seen.add(digests))
        if self.held_out is not None:
            documents.mark(TEST_DOCUMENT, contains(self.held_out.digests, digests))
        self.document_lengths.add_counts(
            [each.num_words for each in examples], [each.num_characters for each in examples]
        )

    def report(self, texts: Texts) -> Report:
        """Return what was found."""
        mixture, others = self.mixture.told()
        often = self.repeats.finding("boilerplate", BOILERPLATE, "lines")
        lengths: dict[str, Lengths] = {
            "document": self.document_lengths.lengths(),
            "line": self.line_lengths.lengths(),
        }
        return Report(
            counts=(self.lines.count(), self.documents.count()),
            lengths=lengths,
            findings=sorted_findings([*self.lines.findings(), *self.documents.findings(), *often, *others]),
            num_files=len(texts.files),
            facts=(f"documents: {texts.separation}", *mixture),
        )


class DocumentReader:
    """Puts documents together from their lines."""

    def __init__(self) -> None:
        self.open = OpenDocument(Place(STANDARD_INPUT, 1))

    def ended(self, batch: LineBatch) -> DocumentBatch:
        """Return the documents that end among lines."""
        found: DocumentBatch = Batch()
        for place, line in zip(batch.places, batch.examples, strict=True):
            if line.begins:
                self.open = OpenDocument(place)
            self.open.add(line.text)
            if line.ends:
                found.add(self.open.place, self.open.closed())
        return found


class OpenDocument:
    """What is known so far of a document that is being read."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.digest = blake2b(digest_size=8)
        self.num_words = self.num_characters = 0
        self.ends_word = True

    def add(self, text: str) -> None:
        """Take more of it; the digest does not depend on where the text is cut."""
        words = text.casefold().split()
        self.num_characters += len(text)
        if not words:
            self.ends_word = self.ends_word or bool(text)
            return
        begins_word = self.ends_word or text[0].isspace()
        self.num_words += len(words) - (not begins_word)
        self.digest.update(f"{' ' if begins_word else ''}{' '.join(words)}".encode())
        self.ends_word = text[-1].isspace()

    def closed(self) -> Document:
        """Return what is known of it at its end."""
        return Document(int.from_bytes(self.digest.digest(), "little"), self.num_words, self.num_characters)


def faults_of_line(line: Line, text: str) -> Iterator[FaultKind]:
    """Yield the faults that a line has by itself."""
    if (line.goes_on or len(text) >= VERY_LONG) and not line.continues:
        yield VERY_LONG_LINE
    if has_control_characters(text):
        yield CONTROL
    if has_encoding_damage(text):
        yield DAMAGE
    if text in KNOWN_MARKS:
        yield MARK


def document_numbers(batch: LineBatch) -> Sequence[int]:
    """Return, for each line of a batch, how many documents have begun up to there."""
    return np.cumsum([line.begins for line in batch.examples]).tolist()


class HeldOutTexts:
    """The documents and the passages of a test set."""

    def __init__(self, test: Texts) -> None:
        self.reader, self.documents = DocumentReader(), list[int]()
        self.passages = Passages(self.read(batches_of(located_lines(test, refuse), num_characters)))
        self.digests = np.unique(np.array(self.documents, dtype=np.uint64))

    def read(self, batches: Iterable[LineBatch]) -> Iterator[tuple[list[str], Sequence[int]]]:
        """Yield lines with the numbers of their documents, and remember these."""
        for batch in batches:
            self.documents += [each.digest for each in self.reader.ended(batch).examples if each.num_words]
            yield [line.text for line in batch.examples], document_numbers(batch)
