"""What an encoder reads: one text or two as a row of tokens, [CLS] before them and [SEP] behind each.

Of texts that are too long the end is not read, and the row says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sixfold.text.special import SpecialIds


@dataclass(frozen=True)
class EncoderRow:
    """Tokens, the segment that each belongs to, and where the first token of each text stands."""

    tokens: list[int]
    types: list[int]
    starts: tuple[int, ...]
    is_cut: bool


@dataclass(frozen=True)
class RowFormat:
    """How a model wants its rows; `max_tokens` counts special tokens too."""

    special: SpecialIds
    max_tokens: int
    separators: int = 1  # between two texts; RoBERTa has two
    has_segments: bool = True  # whether the second text is told from the first

    def one(self, text: Sequence[int]) -> EncoderRow:
        """Return the row of one text."""
        kept = text[: self.max_tokens - 2]
        tokens = [self.special.bos, *kept, self.special.eos]
        return EncoderRow(tokens, [0] * len(tokens), (1,), len(kept) < len(text))

    def two(self, first: Sequence[int], second: Sequence[int]) -> EncoderRow:
        """Return the row of two texts; the longer one is cut first."""
        room = self.max_tokens - 2 - self.separators
        num_first = max(room - len(second), min(len(first), (room + 1) // 2))
        one, two = first[:num_first], second[: max(0, room - min(len(first), num_first))]
        before = [self.special.bos, *one, *[self.special.eos] * self.separators]
        after = [*two, self.special.eos]
        types = [0] * len(before) + [int(self.has_segments)] * len(after)
        is_cut = len(one) + len(two) < len(first) + len(second)
        return EncoderRow([*before, *after], types, (1, len(before)), is_cut)
