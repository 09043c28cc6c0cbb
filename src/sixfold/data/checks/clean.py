"""Writing what is clean: two aligned files or a TSV file of pairs, a file of text, or one of JSON Lines.

A file appears when all of it has been written, and not otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from sixfold.data.checks.conversations import Row
from sixfold.data.checks.texts import DocumentBatch, Line, LineBatch, Write
from sixfold.data.content import COMPRESSED_SUFFIXES
from sixfold.data.formats import Pair
from sixfold.data.texts import KNOWN_MARKS, Texts
from sixfold.errors import ConfigError
from sixfold.files import replacing


def pair_paths(prefix: Path, source: Path, target: Path | None = None) -> tuple[Path, ...]:
    """Name the clean files after the originals: train.en.gz and train.de.gz give PREFIX.en and PREFIX.de."""
    suffixes = (".tsv",) if target is None else differing_suffixes(source, target)
    return tuple(prefix.with_name(prefix.name + suffix) for suffix in suffixes)


def differing_suffixes(source: Path, target: Path) -> tuple[str, str]:
    """Return the shortest suffixes in which two names differ, or .source and .target."""
    left, right = plain_suffixes(source), plain_suffixes(target)
    for count in range(1, min(len(left), len(right)) + 1):
        if left[-count] != right[-count]:
            return "".join(left[-count:]), "".join(right[-count:])
    return ".source", ".target"


def plain_suffixes(path: Path) -> list[str]:
    """Return the suffixes of a name without a compression suffix."""
    return [suffix for suffix in path.suffixes if suffix.lower() not in COMPRESSED_SUFFIXES]


def refuse_overwriting(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Raise if an output is also an input, or its folder does not exist."""
    for output in outputs:
        if output.exists() and any(path.exists() and path.samefile(output) for path in inputs):
            raise ConfigError(f"The clean file {output} would replace its own input.", "Choose another prefix.")
        if not output.parent.is_dir():
            raise ConfigError(f"There is no folder {output.parent} to write into.", f"mkdir -p {output.parent}")


@contextmanager
def writing_pairs(paths: Sequence[Path]) -> Iterator[Callable[[Pair], None]]:
    """Yield a function that writes a pair; the files appear only if the block succeeds."""
    with ExitStack() as stack:
        temporaries = [stack.enter_context(replacing(path)) for path in paths]
        files = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in temporaries]

        def write_aligned(pair: Pair) -> None:
            files[0].write(f"{pair.source}\n")
            files[1].write(f"{pair.target}\n")

        def write_tsv(pair: Pair) -> None:
            source, target = (side.replace("\t", " ") for side in (pair.source, pair.target))
            files[0].write(f"{source}\t{target}\n")  # a tab inside a side would end it

        yield write_aligned if len(files) == 2 else write_tsv


def text_path(prefix: Path, texts: Texts) -> Path:
    """Name the clean file of a text: JSON Lines if all of it is."""
    return prefix.with_name(prefix.name + (".jsonl" if all(file.is_records for file in texts.files) else ".txt"))


@contextmanager
def writing_texts(path: Path, texts: Texts) -> Iterator[Write]:
    """Yield a function that writes the clean lines of a batch, without documents that turn out not to be clean."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        if all(each.is_records for each in texts.files):
            yield DocumentWriter(file, '{"text": "', as_json, '"}\n').write
        else:
            is_one = len(texts.files) == 1 and texts.files[0].mark == "files"
            yield DocumentWriter(file, "" if is_one else f"{KNOWN_MARKS[0]}\n", as_it_is, "").write


def as_json(line: Line) -> str:
    """Return a line as it stands between the quotes of JSON."""
    return json.dumps(line.text, ensure_ascii=False)[1:-1]


def as_it_is(line: Line) -> str:
    """Return a line; the last one of a document ends too, so that a mark may follow."""
    return f"{line.text}\n" if line.ends and not line.text.endswith("\n") else line.text


class DocumentWriter:
    """Writes documents line by line, and takes back those that turn out not to be clean."""

    def __init__(self, file: BinaryIO, before: str, form: Callable[[Line], str], after: str) -> None:
        self.file, self.before, self.form, self.after = file, before.encode(), form, after.encode()
        self.beginning = 0  # of the document that is open
        self.is_empty = True

    def write(self, lines: LineBatch, documents: DocumentBatch) -> None:
        """Write the clean ones of lines, and end the documents that end among them."""
        is_dirty = map(documents.is_dirty, range(len(documents.examples)))
        for number, line in enumerate(lines.examples):
            if line.begins:
                self.begin()
            if not lines.is_dirty(number):
                self.file.write(self.form(line).encode())
                self.is_empty = self.is_empty and not line.text.strip()
            if line.ends:
                self.end(is_kept=not next(is_dirty))

    def begin(self) -> None:
        """Begin a document; in a file of several, each begins on a line of its own."""
        self.beginning, self.is_empty = self.file.tell(), True
        self.file.write(self.before)

    def end(self, is_kept: bool) -> None:
        """End a document, or take it back; one that has nothing left is none."""
        if is_kept and not self.is_empty:
            self.file.write(self.after)
        else:
            self.file.seek(self.beginning)
            self.file.truncate()


@contextmanager
def writing_rows(path: Path) -> Iterator[Callable[[Row], object]]:
    """Yield a function that writes a conversation as it was read."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda row: file.write(f"{row.json}\n")
