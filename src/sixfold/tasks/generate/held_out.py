"""Choose the held-out part of a text: documents by a hash, or evenly spaced stretches if documents are few."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from sixfold.data.texts import Piece
from sixfold.tasks.generate.survey import Survey, hash_of

LARGEST_FRACTION = 0.05
ENOUGH_DOCUMENTS = 20  # held-out documents, so that they represent the others
STRETCH_CHARACTERS = 8000  # of one held-out stretch
BREAK = re.compile(r"\s")
FARTHEST_BREAK = 200  # characters; in scripts without spaces a stretch may end anywhere


@dataclass(frozen=True)
class ByDocument:
    """Documents with a small hash are held out, so that copies are in the same split."""

    threshold: int

    def split(self, pieces: Iterable[Piece]) -> Iterator[tuple[str, Piece, bool]]:
        """Yield the split of each piece, and whether it continues the piece before it."""
        split = "train"
        for piece in pieces:
            if piece.is_first:
                split = "valid" if hash_of(piece.text) <= self.threshold else "train"
            yield split, piece, not piece.is_first

    def __str__(self) -> str:
        return "whole documents, chosen by a hash"


@dataclass(frozen=True)
class ByStretch:
    """A number of evenly spaced stretches of the whole text is held out."""

    count: int
    length: int  # characters of a stretch
    num_characters: int  # of the whole text

    def split(self, pieces: Iterable[Piece]) -> Iterator[tuple[str, Piece, bool]]:
        """Yield the same as `ByDocument`, with pieces cut where a held-out stretch begins or ends."""
        position, before = 0, ""
        for piece in pieces:
            cuts = [0, *self.cuts(piece.text, position), len(piece.text)]
            for begin, end in pairwise(dict.fromkeys(cuts)):
                split = "valid" if self.is_held_out(position + (begin + end) // 2) else "train"
                part = Piece(
                    piece.text[begin:end],
                    piece.line + piece.text.count("\n", 0, begin),
                    piece.is_first and begin == 0,
                    piece.is_last and end == len(piece.text),
                )
                yield split, part, split == before and not part.is_first
                before = split
            position += len(piece.text)

    def cuts(self, text: str, position: int) -> list[int]:
        """Return where to cut a text that begins at a position: at ends of words."""
        cuts = []
        for number in range(self.count):
            begin = int((number + 0.5) * self.num_characters / self.count) - self.length // 2
            for place in (begin - position, begin + self.length - position):
                if 0 < place < len(text):
                    found = BREAK.search(text, place, place + FARTHEST_BREAK)
                    cuts.append(found.start() if found else place)
        return cuts

    def is_held_out(self, position: int) -> bool:
        """Return whether the character at a position is held out."""
        distance = self.num_characters / self.count
        return abs(position % distance - distance / 2) < self.length / 2

    def __str__(self) -> str:
        return f"{self.count} evenly spaced stretches of about {self.length:,} characters"


def choose_held_out(surveyed: Survey, valid_bytes: int) -> ByDocument | ByStretch:
    """Choose what to hold out."""
    fraction = min(LARGEST_FRACTION, valid_bytes / surveyed.num_bytes)
    if surveyed.has_conversations or fraction * surveyed.num_documents >= ENOUGH_DOCUMENTS:
        return ByDocument(max(surveyed.smallest_hash, int(2**64 * fraction) - 1))
    characters = fraction * surveyed.num_characters
    count = max(2, round(characters / STRETCH_CHARACTERS))
    return ByStretch(count, max(1, int(characters / count)), surveyed.num_characters)
