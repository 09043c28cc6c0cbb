"""BPE-dropout (Provilkov et al., 2020): the same text in other subwords, decided by a seed in any process.

SentencePiece can do it too, but since 0.2.2 its random numbers are different ones in every process, and a resumed
run must draw what the unbroken one would have drawn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

NUM_RESERVED = 4 + 256  # special tokens, and one token for each byte
SPACE_MARK = "▁"  # SentencePiece's own stand-in for a space (U+2581)
WORDS = re.compile(f"{SPACE_MARK}[^{SPACE_MARK}]*|[^{SPACE_MARK}]+")  # no piece reaches over the start of a word
NEVER = float("-inf")

PairScore = Callable[[str, str], float]  # of two neighbours; the best are merged first


class BpeDropout:
    """The merges of a BPE vocabulary, some of which are left out at random."""

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], first_byte: int) -> None:
        self.ids = {piece: i for i, piece in enumerate(pieces) if i >= NUM_RESERVED}
        self.scores = {piece: scores[i] for piece, i in self.ids.items()}
        self.first_byte = first_byte  # the token of byte 0

    def sample(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Return the tokens of each text, with this share of the merges left out."""
        draw = random.Random(seed).random

        def pair_score(left: str, right: str) -> float:
            score = self.scores.get(left + right, NEVER)
            return NEVER if score > NEVER and draw() < dropout else score

        return [self.spell(text, pair_score) for text in texts]

    def spell(self, text: str, pair_score: PairScore) -> list[int]:
        """Return the tokens of a text; a character that is no piece becomes its bytes."""
        row: list[int] = []
        for word in WORDS.findall(text.replace(" ", SPACE_MARK)):
            for piece in merged(list(word), pair_score):
                if piece in self.ids:
                    row.append(self.ids[piece])
                else:
                    row += [self.first_byte + byte for byte in piece.encode()]
        return row


def merged(symbols: list[str], pair_score: PairScore) -> list[str]:
    """Merge the best two neighbours until none are left to merge; two that were left out stay apart."""
    scores = [pair_score(left, right) for left, right in pairwise(symbols)]
    while scores and (best := max(scores)) > NEVER:
        i = scores.index(best)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        del scores[i]
        if i > 0:
            scores[i - 1] = pair_score(symbols[i - 1], symbols[i])
        if i < len(scores):
            scores[i] = pair_score(symbols[i], symbols[i + 1])
    return symbols
