"""Corpora of labelled texts: how their rows are written, and counted."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from sixfold.data.corpora.texts import TextsBySplit

Labelled = tuple[str, str]  # a text and its label


def tables(splits: Mapping[str, Sequence[Labelled]], notes: tuple[str, ...] = ()) -> TextsBySplit:
    """Return splits that are a CSV file each, with the columns `text` and `label`."""
    files = {name: {f"{name}.csv": as_csv(rows)} for name, rows in splits.items()}
    return TextsBySplit(files, (*(counts(name, rows) for name, rows in splits.items()), *notes))


def as_csv(rows: Sequence[Labelled]) -> str:
    """Return rows as CSV with a header."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(("text", "label"))
    writer.writerows(rows)
    return written.getvalue()


def counts(name: str, rows: Sequence[Labelled]) -> str:
    """Say how many texts of each label there are."""
    found = Counter(label for _, label in rows)
    return f"{name}: {len(rows):,} texts; " + ", ".join(f"{label} {found[label]:,}" for label in sorted(found))


def share_of(text: str) -> float:
    """Return a number from 0 to 1 that depends on a text alone: equal texts fall into one split."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) / 2**64
