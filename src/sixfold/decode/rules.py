"""Rules: each forbids some next tokens. The others keep their log-probability, so scores stay the model's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sixfold.decode.search import TokenSet
from sixfold.text.spelling import Spelling, begun
from sixfold.text.words import joins, occurs

SOME_LETTER = "\u0300"  # stands for any character that makes a word longer; no phrase begins with it
CHARACTER_BYTES = 4  # the most that one takes


NOTHING: TokenSet = np.array([], dtype=np.int64)


class MinLength:
    """No end before so many tokens, the end token not counted."""

    def __init__(self, length: int, eos: int) -> None:
        self.length, self.end = length, token_set([eos])

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        """Forbid the end while too little is written."""
        return self.end if len(tokens) < self.length else NOTHING


class NoRepeat:
    """No n tokens in a row twice."""

    def __init__(self, n: int) -> None:
        self.n = n

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        """Forbid each token that once came after the newest n-1."""
        newest = tokens[len(tokens) - self.n + 1 :]
        places = range(len(tokens) - self.n + 1)
        return token_set(tokens[i + self.n - 1] for i in places if tokens[i : i + self.n - 1] == newest)


class ForcedPrefix:
    """The text begins with given text, in whatever tokens; the prefix may end inside a word."""

    def __init__(self, prefix: str, spelling: Spelling) -> None:
        self.prefix = b" " + prefix.encode()  # every text begins with a space, which is not shown
        self.spelling = spelling
        self.known: dict[int, TokenSet] = {}  # by how much of the prefix is written

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        """Forbid every token that would not go on with the prefix."""
        done = sum(len(self.spelling[token]) for token in tokens)
        if done >= len(self.prefix):
            return NOTHING
        if done not in self.known:
            rest = self.prefix[done:]
            self.known[done] = token_set(
                token
                for token, own in enumerate(self.spelling)
                if not own or not (rest.startswith(own) or own.startswith(rest))
            )
        return self.known[done]


class ForbiddenWords:
    """No forbidden phrase ever stands in the text as words of its own, in whatever tokens it would be spelled.

    A token that ends with the phrase is forbidden even if a longer word could come of it ("dog" forbids to spell
    "dogs" as "dog" and "s"): else a search is led to that word only to mangle it. All that matters of a text is
    how much of a phrase stands at its end, so the sets of forbidden tokens are few, and are kept.
    """

    def __init__(self, phrases: Sequence[str], spelling: Spelling) -> None:
        self.phrases, self.spelling = tuple(phrases), spelling
        self.texts = [begun(own)[0] for own in spelling]
        self.longest = max(map(len, phrases))
        self.tail_bytes = max(len(phrase.encode()) for phrase in phrases) + 2 * CHARACTER_BYTES
        self.known: dict[tuple[str, bytes], TokenSet] = {}  # by the end of the text

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        """Forbid each token after which a phrase would stand in the text."""
        text, rest = context = self.context(tokens)
        if context not in self.known:
            new = [begun(rest + own)[0] for own in self.spelling] if rest else self.texts
            self.known[context] = token_set(
                token for token, each in enumerate(new) if self.is_forbidden(text + each)
            )
        return self.known[context]

    def context(self, tokens: Sequence[int]) -> tuple[str, bytes]:
        """Return the end of the text, as far as it matters, and the bytes of an unfinished character."""
        tail = b""
        for token in reversed(tokens):
            tail = self.spelling[token] + tail
            if len(tail) >= self.tail_bytes:
                break
        text, rest = begun(tail)
        for start in range(max(0, len(text) - self.longest), len(text)):
            begins_word = start == 0 or not joins(text[start - 1], text[start])
            if begins_word and any(phrase.startswith(text[start:]) for phrase in self.phrases):
                return text[start:], rest
        return SOME_LETTER if text and joins(text[-1], text[-1]) else "", rest

    def is_forbidden(self, text: str) -> bool:
        """Say whether a phrase stands in a text."""
        return any(occurs(phrase, text) for phrase in self.phrases)


def token_set(tokens: Iterable[int]) -> TokenSet:
    """Return distinct tokens, ascending."""
    return np.array(sorted(set(tokens)), dtype=np.int64)
