"""The text of a growing sequence of tokens, of which only the final part is shown."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class GrowingText:
    """Whole characters without any part of a stop string; a character or stop string may span several tokens."""

    def __init__(self, stop: Sequence[str] = (), drops_space: bool = False) -> None:
        """Begin a text; `drops_space` drops the space that a tokenizer prepends to every text."""
        self.stop, self.drops_space = stop, drops_space
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.read = ""  # all whole characters
        self.text = ""  # the final ones; it only grows
        self.is_stopped = False

    def add(self, raw: bytes, is_last: bool = False) -> None:
        """Add the bytes of a token; after the last one, held back characters become text."""
        self.read += self.decoder.decode(raw, is_last)
        if self.drops_space and self.read:
            self.read, self.drops_space = self.read.removeprefix(" "), False
        found = [place for each in self.stop if (place := self.read.find(each, len(self.text))) >= 0]
        self.is_stopped = bool(found)
        end = min(found) if found else len(self.read) - (0 if is_last else self.held_back())
        self.text = self.read[:end]

    def held_back(self) -> int:
        """Return how many characters at the end may be the beginning of a stop string."""
        lengths = (
            length for each in self.stop for length in range(1, len(each)) if self.read.endswith(each[:length])
        )
        return max(lengths, default=0)
