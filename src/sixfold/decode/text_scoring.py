"""The log-probability of a text under a decoder-only model, token by token.

A text longer than the context is read in windows that overlap by half: all tokens except those of the first window
have at least half a context before them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sixfold.callbacks import OnProgress, no_progress
from sixfold.decode.contexts import ContextEngine
from sixfold.decode.scoring import TokenScore, token_scores

TOKENS_AT_ONCE = 1024  # per call of the engine, unless a window is longer
LOGITS_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class TextScore:
    """The score of one text, from its first token to the end token."""

    num_bytes: int  # of the text in UTF-8
    tokens: tuple[int, ...] = field(repr=False)  # the end token included
    log_probabilities: tuple[float, ...] = field(repr=False)

    @property
    def log_probability(self) -> float:
        """The log-probability of the whole text."""
        return math.fsum(self.log_probabilities)

    @property
    def num_tokens(self) -> int:
        """The number of scored tokens."""
        return len(self.tokens)

    @property
    def token_scores(self) -> list[TokenScore]:
        """The tokens with their log-probabilities."""
        return [TokenScore(*each, ()) for each in zip(self.tokens, self.log_probabilities, strict=True)]

    @property
    def bits_per_byte(self) -> float:
        """The bits per byte of text, which are comparable between tokenizers."""
        return bits_per_byte(-self.log_probability, self.num_bytes)

    @property
    def perplexity(self) -> float:
        """The perplexity per token, which is comparable between models with the same tokenizer."""
        return perplexity(self.log_probability, self.num_tokens)


def bits_per_byte(negative_log_probability: float, num_bytes: int) -> float:
    """Return the bits per byte of text, from natural logarithms; lower is better."""
    return negative_log_probability / math.log(2) / max(1, num_bytes)


def perplexity(log_probability: float, num_tokens: int) -> float:
    """Return exp of the mean negative log-probability per token; infinite if it overflows."""
    mean = -log_probability / max(1, num_tokens)
    return math.exp(mean) if mean < 700 else math.inf


@dataclass(frozen=True)
class Window:
    """A part of a row that is read at once; its tokens beginning with `scored` are scored in it."""

    row: int
    begin: int
    scored: int
    end: int

    @property
    def length(self) -> int:
        """The number of its tokens."""
        return self.end - self.begin


def windows(row: int, length: int, most: int) -> Iterator[Window]:
    """Yield windows of at most `most` tokens over `length`; consecutive windows overlap by half."""
    begin = scored = 0
    while scored < length:
        end = min(begin + most, length)
        yield Window(row, begin, scored, end)
        begin, scored = end - most // 2, end


def packed(found: Iterator[Window]) -> Iterator[list[Window]]:
    """Group windows that are read together, in order."""
    pack: list[Window] = []
    for window in found:
        if pack and sum(each.length for each in (*pack, window)) > TOKENS_AT_ONCE:
            yield pack
            pack = []
        pack.append(window)
    if pack:
        yield pack


@torch.inference_mode()
def token_log_probabilities(
    engine: ContextEngine, rows: Sequence[Sequence[int]], on_progress: OnProgress = no_progress
) -> list[list[float]]:
    """Return the log-probability of every token of each row except its first, given those before it."""
    found: list[list[float]] = [[] for _ in rows]
    of_rows = (
        window for row, ids in enumerate(rows) for window in windows(row, len(ids) - 1, engine.max_positions)
    )
    for pack in packed(of_rows):
        contexts = [engine.new_context() for _ in pack]
        hidden = engine.read(contexts, [rows[each.row][each.begin : each.end] for each in pack])
        for window, states in zip(pack, hidden.split([each.length for each in pack]), strict=True):
            targets = rows[window.row][window.scored + 1 : window.end + 1]
            found[window.row] += scored(engine, states[window.scored - window.begin :], targets)
        on_progress(pack[-1].row)
    return found


@torch.inference_mode()
def text_token_scores(engine: ContextEngine, ids: Sequence[int], num_alternatives: int) -> list[TokenScore]:
    """Return the score of each token but the first of a text that fits the context, and its alternatives."""
    hidden = engine.read([engine.new_context()], [ids[:-1]])
    targets = torch.tensor(ids[1:], device=hidden.device)
    rows = max(1, LOGITS_AT_ONCE // engine.vocabulary)
    parts = zip(hidden.split(rows), targets.split(rows), strict=True)
    return [
        score
        for states, some in parts
        for score in token_scores(engine.log_probabilities(states)[None], some[None], num_alternatives)[0]
    ]


def scored(engine: ContextEngine, hidden: Tensor, targets: Sequence[int]) -> list[float]:
    """Return the log-probability of each target after its hidden state (rows, d)."""
    ids = torch.tensor(targets, device=hidden.device)[:, None]
    rows = max(1, LOGITS_AT_ONCE // engine.vocabulary)
    parts = zip(hidden.split(rows), ids.split(rows), strict=True)
    return [
        number
        for states, some in parts
        for number in engine.log_probabilities(states).gather(1, some)[:, 0].tolist()
    ]
