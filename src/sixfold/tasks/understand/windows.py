"""A question and its text as rows that an encoder can read: windows over the text that overlap by half.

Shapes: T positions of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sixfold.text import AnyTokenizer
from sixfold.text.encoder_row import EncoderRow, RowFormat
from sixfold.text.located import Span

LONGEST_ANSWER = 30  # tokens
QUESTION_SHARE = 3  # a question takes at most a third of a row


@dataclass(frozen=True)
class Window:
    """A row, and the characters of the text that each of its tokens is; tokens that are no text have (0, 0)."""

    row: EncoderRow
    spans: tuple[Span, ...]  # (T,)
    is_cut: bool  # whether the question did not fit


@dataclass(frozen=True)
class Candidate:
    """A stretch of the text that may be the answer, and how much better it is than no answer."""

    start: int
    end: int
    score: float
    no_answer: float  # the score of there being none in this window


def windows_of(tokenizer: AnyTokenizer, rows: RowFormat, question: str, context: str) -> Iterator[Window]:
    """Yield the windows over a text."""
    asked = tokenizer.encode(question)
    longest = rows.max_tokens // QUESTION_SHARE
    asked, is_cut = asked[:longest], len(asked) > longest
    [(tokens, spans)] = tokenizer.encode_with_spans([context])
    room = rows.max_tokens - 2 - rows.separators - len(asked)
    for begin in range(0, max(1, len(tokens) - room // 2), max(1, room // 2)):
        part, places = tokens[begin : begin + room], spans[begin : begin + room]
        row = rows.two(asked, part)
        before = row.starts[1]
        around = [(0, 0)] * before, [(0, 0)] * (len(row.tokens) - before - len(part))
        yield Window(row, (*around[0], *places, *around[1]), is_cut)


def bounds_of(window: Window, answer: Span) -> tuple[int, int]:
    """Return the first and the last token of an answer in a window; (0, 0) if it is not all there."""
    start, end = answer
    inside = [
        place for place, (first, last) in enumerate(window.spans) if first < end and last > start and first < last
    ]
    if not inside:
        return 0, 0
    is_whole = window.spans[inside[0]][0] <= start and window.spans[inside[-1]][1] >= end
    return (inside[0], inside[-1]) if is_whole else (0, 0)


def best_candidate(logits: NDArray[np.float64], spans: Sequence[Span]) -> Candidate | None:
    """Return the best answer in a window by the logits (T, 2) of its start and its end."""
    is_text = np.array([first < last for first, last in spans])
    starts, ends = np.where(is_text[:, None], logits, -np.inf).T
    scores = starts[:, None] + ends[None, :]  # (T, T)
    allowed = np.triu(np.ones_like(scores, dtype=bool)) & ~np.triu(
        np.ones_like(scores, dtype=bool), LONGEST_ANSWER
    )
    scores = np.where(allowed, scores, -np.inf)
    first, last = divmod(int(scores.argmax()), scores.shape[1])
    if not np.isfinite(scores[first, last]):
        return None
    none = float(logits[0].sum())
    return Candidate(spans[first][0], spans[last][1], float(scores[first, last]), none)
