"""Rules: each forbids some next tokens. What remains keeps its log-probability, so that scores stay the model's.

Shapes: R rows, V vocabulary, T tokens so far, begin mark included.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sixfold.decode.search import NEVER
from sixfold.text.spelling import Spelling, begun
from sixfold.text.words import joins, occurs

SOME_LETTER = "\u0300"  # stands for any character that makes a word longer; no phrase begins with it
CHARACTER_BYTES = 4  # the most that one takes


class MinLength:
    """No end before so many tokens, the end mark not counted."""

    def __init__(self, length: int, eos: int) -> None:
        self.length, self.eos = length, eos

    def __call__(self, log_probs: Tensor, tokens: Tensor, sentence: Tensor) -> Tensor:  # noqa: ARG002
        """Forbid the end mark while too little is written."""
        if tokens.size(1) - 1 < self.length:
            log_probs[:, self.eos] = NEVER
        return log_probs


class NoRepeat:
    """No n tokens in a row twice."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, log_probs: Tensor, tokens: Tensor, sentence: Tensor) -> Tensor:  # noqa: ARG002
        """Forbid each token that once came after the newest n-1."""
        if tokens.size(1) >= self.n:
            grams = tokens.unfold(1, self.n, 1)  # (R, T-n+1, n)
            newest = tokens[:, tokens.size(1) - self.n + 1 :]  # (R, n-1)
            rows, places = (grams[:, :, :-1] == newest[:, None]).all(dim=2).nonzero(as_tuple=True)
            log_probs[rows, grams[rows, places, -1]] = NEVER
        return log_probs


class ForcedPrefix:
    """The text begins with given text, in whatever tokens; the prefix may end inside a word."""

    def __init__(self, prefix: str, spelling: Spelling) -> None:
        self.prefix = b" " + prefix.encode()  # every text begins with a space, which is not shown
        self.spelling = spelling
        self.masks: dict[int, Tensor] = {}  # by how much of the prefix is written

    def __call__(self, log_probs: Tensor, tokens: Tensor, sentence: Tensor) -> Tensor:  # noqa: ARG002
        """Forbid every token that would not go on with the prefix."""
        for row, prefix in enumerate(tokens.tolist()):
            done = sum(len(self.spelling[token]) for token in prefix)
            if done < len(self.prefix):
                log_probs[row].masked_fill_(self.mask(done).to(log_probs.device), NEVER)
        return log_probs

    def mask(self, done: int) -> Tensor:
        """Return which tokens (V,) do not fit behind so many bytes."""
        if done not in self.masks:
            rest = self.prefix[done:]
            fits = [bool(own) and (rest.startswith(own) or own.startswith(rest)) for own in self.spelling]
            self.masks[done] = ~torch.tensor(fits)
        return self.masks[done]


class ForbiddenWords:
    """No forbidden phrase ever stands in the text as words of its own, in whatever tokens it would be spelled.

    A token that ends with the phrase is forbidden even if a longer word could come of it ("dog" forbids to spell
    "dogs" as "dog" and "s"): else a search is led to that word only to mangle it. All that matters of a text is
    how much of a phrase stands at its end, so the masks are few, and are kept.
    """

    def __init__(self, phrases: Sequence[str], spelling: Spelling) -> None:
        self.phrases, self.spelling = tuple(phrases), spelling
        self.texts = [begun(own)[0] for own in spelling]
        self.longest = max(map(len, phrases))
        self.tail_bytes = max(len(phrase.encode()) for phrase in phrases) + 2 * CHARACTER_BYTES
        self.masks: dict[tuple[str, bytes], Tensor] = {}  # by the end of the text

    def __call__(self, log_probs: Tensor, tokens: Tensor, sentence: Tensor) -> Tensor:  # noqa: ARG002
        """Forbid each token after which a phrase would stand in the text."""
        for row, prefix in enumerate(tokens.tolist()):
            log_probs[row].masked_fill_(self.mask(self.context(prefix)).to(log_probs.device), NEVER)
        return log_probs

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

    def mask(self, context: tuple[str, bytes]) -> Tensor:
        """Return which tokens (V,) are forbidden behind the end of a text."""
        if context not in self.masks:
            text, rest = context
            new = [begun(rest + own)[0] for own in self.spelling] if rest else self.texts
            self.masks[context] = torch.tensor([self.is_forbidden(text + each) for each in new])
        return self.masks[context]

    def is_forbidden(self, text: str) -> bool:
        """Say whether a phrase stands in a text."""
        return any(occurs(phrase, text) for phrase in self.phrases)
