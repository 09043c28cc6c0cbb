"""Rules that forbid next tokens; the other tokens keep their log-probabilities, so scores stay the model's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sixfold.decode.search import TokenSet
from sixfold.text.spelling import Spelling, begun
from sixfold.text.words import joins, occurs

SOME_LETTER = "\u0300"  # represents any character that continues a word; no phrase begins with it
CHARACTER_BYTES = 4  # the most bytes of a character


NOTHING: TokenSet = np.array([], dtype=np.int64)


class MinLength:
    """No end before a minimum number of tokens."""

    def __init__(self, length: int, eos: int) -> None:
        self.length, self.end = length, token_set([eos])

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        """Forbid the end while the output is too short."""
        return self.end if len(tokens) < self.length else NOTHING


class NoRepeat:
    """No sequence of n tokens twice."""

    def __init__(self, n: int) -> None:
        self.n = n

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        """Forbid each token that has followed the latest n-1 tokens before."""
        newest = tokens[len(tokens) - self.n + 1 :]
        places = range(len(tokens) - self.n + 1)
        return token_set(tokens[i + self.n - 1] for i in places if tokens[i : i + self.n - 1] == newest)


class ForcedPrefix:
    """The output begins with a given text, however it is tokenized; the prefix may end inside a word."""

    def __init__(self, prefix: str, spelling: Spelling) -> None:
        self.prefix = b" " + prefix.encode()  # every output begins with a space, which is not shown
        self.spelling = spelling
        self.known: dict[int, TokenSet] = {}  # by the number of prefix bytes so far

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        """Forbid every token that does not continue the prefix."""
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
    """No output contains a forbidden phrase as whole words, however it is tokenized.

    A token that completes the phrase is forbidden even if a longer word could follow ("dog" forbids "dogs" as
    "dog" and "s"): otherwise the search would be led to that word and then have to change it. Only the part of a
    phrase at the end of the text matters, so there are few sets of forbidden tokens, and they are cached.
    """

    def __init__(self, phrases: Sequence[str], spelling: Spelling) -> None:
        self.phrases, self.spelling = tuple(phrases), spelling
        self.texts = [begun(own)[0] for own in spelling]
        self.longest = max(map(len, phrases))
        self.tail_bytes = max(len(phrase.encode()) for phrase in phrases) + 2 * CHARACTER_BYTES
        self.known: dict[tuple[str, bytes], TokenSet] = {}  # by the end of the text

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        """Forbid each token that would complete a phrase."""
        text, rest = context = self.context(tokens)
        if context not in self.known:
            new = [begun(rest + own)[0] for own in self.spelling] if rest else self.texts
            self.known[context] = token_set(
                token for token, each in enumerate(new) if self.is_forbidden(text + each)
            )
        return self.known[context]

    def context(self, tokens: Sequence[int]) -> tuple[str, bytes]:
        """Return the relevant end of the text, and the bytes of an incomplete character."""
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
        """Return whether a text contains a forbidden phrase."""
        return any(occurs(phrase, text) for phrase in self.phrases)


def token_set(tokens: Iterable[int]) -> TokenSet:
    """Return distinct tokens, ascending."""
    return np.array(sorted(set(tokens)), dtype=np.int64)
