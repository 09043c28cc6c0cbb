"""The text of tokens as they come: only what is sure of it is shown."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class GrowingText:
    """Whole characters, and no part of a stop string; a character and a stop string may straddle tokens."""

    def __init__(self, stop: Sequence[str] = (), drops_space: bool = False) -> None:
        """Begin a text; `drops_space` drops the space that a tokenizer puts before every text."""
        self.stop, self.drops_space = stop, drops_space
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.read = ""  # all whole characters
        self.text = ""  # those that are sure; it only grows
        self.is_stopped = False

    def add(self, raw: bytes, is_last: bool = False) -> None:
        """Add the bytes of a token; after the last one, what was held back is text."""
        self.read += self.decoder.decode(raw, is_last)
        if self.drops_space and self.read:
            self.read, self.drops_space = self.read.removeprefix(" "), False
        found = [place for each in self.stop if (place := self.read.find(each, len(self.text))) >= 0]
        self.is_stopped = bool(found)
        end = min(found) if found else len(self.read) - (0 if is_last else self.held_back())
        self.text = self.read[:end]

    def held_back(self) -> int:
        """Return how many of the last characters may be the beginning of a stop string."""
        lengths = (
            length for each in self.stop for length in range(1, len(each)) if self.read.endswith(each[:length])
        )
        return max(lengths, default=0)
