"""Tokens as the page shows them, each with the word that it is part of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from sixfold.text import AnyTokenizer
from sixfold.text.words import Span, characters_of, token_spans, words

NO_WORD = -1  # special tokens belong to no word


@dataclass(frozen=True)
class PageToken:
    """One token, as its tokenizer writes it (U+2581 is a space, <0xE2> a byte), and the index of its word."""

    piece: str
    word: int


def page_tokens(tokenizer: AnyTokenizer, ids: Sequence[int]) -> tuple[PageToken, ...]:
    """Return tokens as the page shows them; special ones, which write nothing, are in no word."""
    spelling = tokenizer.spelling()
    spelled = [spelling[token] for token in ids]
    text = "".join(character for character, _ in characters_of(b"".join(spelled)))
    indices = word_indices(token_spans(spelled, drops_space=False), words(text))
    return tuple(
        PageToken(piece, index if raw else NO_WORD)
        for piece, index, raw in zip(tokenizer.pieces(ids), indices, spelled, strict=True)
    )


def word_indices(tokens: Sequence[Span], words: Sequence[Span]) -> list[int]:
    """Return the word of each token: the one it overlaps most, and never an earlier word than the token before.

    A token in no word, such as a space, belongs to the word before it.
    """
    indices: list[int] = []
    current = 0
    for token in tokens:
        current = best_word(token, words, current)
        indices.append(current)
    return indices


def best_word(token: Span, words: Sequence[Span], first: int) -> int:
    """Return the word that a token overlaps most, from `first` on."""
    begun = takewhile(lambda i: words[i][0] < token[1], range(first, len(words)))
    return max(begun, key=lambda i: overlap(token, words[i]), default=first)


def overlap(one: Span, other: Span) -> int:
    """Return the number of characters that two spans have in common."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))
