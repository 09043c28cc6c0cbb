"""Read pairs from two line-aligned files, from one file that holds both sides, or from folders of them.

The format is detected from the content and the name; `streams` detects the compression.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from sixfold.data.content import format_of_content, format_of_name
from sixfold.data.formats import (
    Pair,
    jsonl_sides,
    parquet_sides,
    read_aligned,
    read_jsonl,
    read_parquet,
    read_po,
    read_tsv,
)
from sixfold.data.languages import Languages
from sixfold.data.streams import FileOrInput, Input, find_input, first_bytes, read_lines
from sixfold.data.tmx import read_tmx, tmx_languages
from sixfold.errors import DataError

__all__ = ["Pair", "Pairs", "join_pairs", "open_pairs", "read_lines"]

PLAIN_FORMATS = {"tsv": read_tsv, "po": read_po}
NAMED_FORMATS = {  # formats that name their sides: how to find the sides, and how to read them
    "jsonl": (jsonl_sides, read_jsonl),
    "tmx": (tmx_languages, read_tmx),
    "parquet": (parquet_sides, read_parquet),
}


class Pairs(ABC):
    """Pairs that can be read again and again: every `iter()` starts from the beginning.

    `paths` are the input files in order; standard input is `-`. `sides` is what the user or the file calls source
    and target (languages, keys, columns); None where neither says.
    """

    paths: tuple[Path, ...]
    sides: Languages | None = None

    @property
    def parts(self) -> tuple[Pairs, ...]:
        """The pairs of each file separately, because line numbers start again in each."""
        return (self,)

    @abstractmethod
    def __iter__(self) -> Iterator[Pair]:
        """Yield the pairs in the order of the files."""


class PairsOfFile(Pairs):
    """The pairs of one file, or of two aligned ones."""

    def __init__(
        self, inputs: Sequence[Input], read: Callable[[], Iterator[Pair]], sides: Languages | None
    ) -> None:
        self.sides = sides
        self.paths = tuple(source.path for source in inputs)
        self.names = " and ".join(source.name for source in inputs)
        self.read = read

    def __iter__(self) -> Iterator[Pair]:
        pair = None
        for pair in self.read():
            yield pair
        if pair is None:
            raise DataError(f"There are no pairs in {self.names}.", "At least one pair is needed.")


class JoinedPairs(Pairs):
    """The pairs of several files, one after the other."""

    def __init__(self, parts: Sequence[Pairs]) -> None:
        self._parts = tuple(part for several in parts for part in several.parts)
        self.paths = tuple(path for part in self._parts for path in part.paths)
        self.sides = self._parts[0].sides if len({part.sides for part in self._parts}) == 1 else None

    @property
    def parts(self) -> tuple[Pairs, ...]:
        """The pairs of each file separately."""
        return self._parts

    def __iter__(self) -> Iterator[Pair]:
        for part in self._parts:
            yield from part


def join_pairs(parts: Sequence[Pairs]) -> Pairs:
    """Concatenate several sources of pairs."""
    return parts[0] if len(parts) == 1 else JoinedPairs(parts)


def open_pairs(
    source: FileOrInput, target: FileOrInput | None = None, *, languages: Languages | None = None
) -> Pairs:
    """Open parallel text: two aligned files or folders, or one file or folder that holds both sides.

    `languages` are those of source and target; in TMX, JSONL and Parquet they also select which two are read.
    """
    if target is None:
        return join_pairs([open_both_sides(path, languages) for path in files_of(source)])
    refuse_same(Path(source), Path(target))
    sources, targets = files_of(source), files_of(target)
    if len(sources) != len(targets) or Path(source).is_dir() != Path(target).is_dir():
        raise DataError(
            f"There must be as many source files as target files: {source} has {len(sources):,}, "
            f"{target} has {len(targets):,}.",
            "Give two files, or two folders whose files pair up in the order of their names.",
        )
    return join_pairs([open_aligned(*paths, languages) for paths in zip(sources, targets, strict=True)])


def refuse_same(source: Path, target: Path) -> None:
    """Raise if one file was given for both sides."""
    if source == target or (source.exists() and target.exists() and source.samefile(target)):
        raise DataError(f"{source} was given as source and as target.", "Give the other file as the target.")


def files_of(path: FileOrInput) -> Sequence[FileOrInput]:
    """Return the file, or the files of a folder sorted by name, without hidden ones."""
    if isinstance(path, Input) or not Path(path).is_dir():
        return [path]
    path = Path(path)
    files = sorted(file for file in path.iterdir() if not file.name.startswith("."))
    if not files:
        raise DataError(f"The folder {path} has no files.", "Give a folder with text files, or one file.")
    return files


def open_aligned(source: FileOrInput, target: FileOrInput, languages: Languages | None) -> Pairs:
    """Open two files as line-aligned text."""
    inputs = find_input(source), find_input(target)
    for side in inputs:
        if format_of_content(first_bytes(side)) in ("parquet", "tmx"):
            raise DataError(f"{side.name} already holds both sides.", "Give it alone, without a second file.")
    return PairsOfFile(inputs, partial(read_aligned, *inputs), languages)


def open_both_sides(path: FileOrInput, languages: Languages | None) -> Pairs:
    """Open one file that holds both sides, in the format that its name or its content says."""
    source = find_input(path)
    head = first_bytes(source)
    kind = format_of_name(source.path) or format_of_content(head)
    if kind in PLAIN_FORMATS:
        return PairsOfFile([source], partial(PLAIN_FORMATS[kind], source), languages)
    if kind in NAMED_FORMATS:
        find_sides, read = NAMED_FORMATS[kind]
        sides = find_sides(source, languages)
        return PairsOfFile([source], partial(read, source, sides), languages or sides)
    raise DataError(
        f"{source.name} was given alone, but is not a TSV, JSONL, TMX, Parquet or PO file.",
        "Give two files for line-aligned text, or one file whose lines are: source, tab, target.",
    )
