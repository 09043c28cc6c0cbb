"""Corpora of plain text: a file or a folder of files for each split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sixfold.data.corpora.files import refuse_to_replace, write_all


@dataclass(frozen=True)
class TextsBySplit:
    """The texts of a corpus by split and by the name of their file, before they are written."""

    splits: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextSplit:
    """One split of a corpus: a file, or a folder of files, each of which is a document."""

    name: str
    path: Path
    num_files: int
    num_characters: int
    num_bytes: int


@dataclass(frozen=True)
class TextCorpus:
    """A corpus of plain text on disk."""

    name: str
    licence: str
    origin: str
    splits: dict[str, TextSplit]
    notes: tuple[str, ...] = ()


def one_file_each(texts: Mapping[str, str], notes: tuple[str, ...] = ()) -> TextsBySplit:
    """Return splits that are one file each."""
    return TextsBySplit({name: {f"{name}.txt": text} for name, text in texts.items()}, notes)


def write_texts(texts: TextsBySplit, folder: Path, overwrite: bool) -> dict[str, TextSplit]:
    """Write `train.txt` or `train/…` and so on: all of them, or none."""
    content = {folder / file: text for files in texts.splits.values() for file, text in files.items()}
    if not overwrite:
        refuse_to_replace(content)
    write_all(content)
    return {name: written(name, files, folder) for name, files in texts.splits.items()}


def written(name: str, files: Mapping[str, str], folder: Path) -> TextSplit:
    """Return the description of a split on disk."""
    first = folder / next(iter(files))
    path = first if first.parent == folder else first.parent
    characters = sum(map(len, files.values()))
    return TextSplit(name, path, len(files), characters, sum(len(text.encode()) for text in files.values()))
