"""Tokens as a page shows them: each with the word that it is part of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from sixfold.text import Tokenizer
from sixfold.text.words import Span, token_spans, words

NO_WORD = -1  # of a begin or end mark


@dataclass(frozen=True)
class Token:
    """One token, with U+2581 for a space, and the number of its word."""

    piece: str
    word: int


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[Token, ...]:
    """Return the tokens of a text, without marks."""
    pieces = tokenizer.pieces(ids)
    numbers = word_numbers(token_spans(pieces), words(tokenizer.decode(ids)))
    return tuple(Token(piece, number) for piece, number in zip(pieces, numbers, strict=True))


def word_numbers(tokens: Sequence[Span], words: Sequence[Span]) -> list[int]:
    """Return the word of each token: the one it shares most characters with, and never an earlier one again.

    A token that is in no word, such as a space, goes with the word before it.
    """
    numbers: list[int] = []
    now = 0
    for token in tokens:
        now = best_word(token, words, now)
        numbers.append(now)
    return numbers


def best_word(token: Span, words: Sequence[Span], first: int) -> int:
    """Return the word, this one or a later one, that a token shares most characters with."""
    begun = takewhile(lambda i: words[i][0] < token[1], range(first, len(words)))
    return max(begun, key=lambda i: overlap(token, words[i]), default=first)


def overlap(one: Span, other: Span) -> int:
    """Return how many characters two spans share."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))
