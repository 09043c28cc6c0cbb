"""From the numbers of a step to the few best extensions of each sentence, for steppers that compute with torch.

Shapes: S sentences, K hypotheses of each, R = S·K rows, V vocabulary, C candidates of each sentence, N blocks of
the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from sixfold.decode.search import NEVER, Extensions, Forbidden, TokenSet

BLOCK = 64  # tokens of the vocabulary that are compared by their best one first
Pieces = Iterable[tuple[Tensor, Tensor]]  # logits (rows, V and a surplus) and the logs of their sums (rows,)


def best_of(pieces: Pieces, scores: Sequence[Sequence[float]], count: int, eos: int) -> Extensions:
    """Return the best extensions of rows with these scores (S, K), from logits of a few sentences at a time.

    What is looked at before the next piece is made is still in the processor's cache.
    """
    found, begin = Extensions([], [], [], [], []), 0
    for logits, log_total in pieces:
        end = begin + log_total.numel() // len(scores[0])
        before = torch.tensor(scores[begin:end], dtype=logits.dtype)
        offsets = before.to(logits.device) - log_total.view_as(before)  # (S, K)
        best, parents, tokens = best_extensions(logits.unflatten(0, offsets.shape), offsets, count)
        found.scores.extend(best.flatten().tolist())
        found.parents.extend(parents.flatten().tolist())
        found.tokens.extend(tokens.flatten().tolist())
        begin = end
        found.ends.extend((logits[:, eos] - log_total).tolist())
        found.most_probable.extend(logits.argmax(dim=1).tolist())
    return found


def best_extensions(numbers: Tensor, offsets: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores, parents and tokens (S, C) of the best of numbers (S, K, V) + offsets (S, K).

    The best C numbers are in the C blocks with the best maxima, so all but these are looked at only once.
    """
    sentences, beam, vocabulary = numbers.shape
    if vocabulary % BLOCK or beam * vocabulary <= 2 * count * BLOCK:
        extended = (numbers + offsets[:, :, None]).flatten(1)
        scores, flat = extended.topk(min(count, extended.size(1)), dim=1)
        return scores, flat // vocabulary, flat % vocabulary
    blocks = numbers.view(sentences, -1, BLOCK)  # (S, K·N, BLOCK)
    maxima = blocks.amax(dim=2).view(sentences, beam, -1) + offsets[:, :, None]
    chosen = maxima.flatten(1).topk(count, dim=1).indices  # (S, C)
    parents = chosen // maxima.size(2)
    inside = blocks.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)) + offsets.gather(1, parents)[:, :, None]
    scores, flat = inside.flatten(1).topk(count, dim=1)
    place = flat // BLOCK
    tokens = chosen.gather(1, place) % maxima.size(2) * BLOCK + flat % BLOCK
    return scores, parents.gather(1, place), tokens


def without(pieces: Pieces, forbidden: Forbidden) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the pieces with the tokens that are forbidden after each row set to NEVER."""
    begin = 0
    for logits, log_total in pieces:
        if forbidden is not None:
            forbid(logits, forbidden[begin : begin + logits.size(0)])
        begin += logits.size(0)
        yield logits, log_total


def forbid(logits: Tensor, forbidden: Sequence[TokenSet]) -> None:
    """Set the tokens that are forbidden after each row (rows, V) to NEVER, in place."""
    rows = np.repeat(np.arange(len(forbidden)), [len(tokens) for tokens in forbidden])
    places = (torch.from_numpy(each).to(logits.device) for each in (rows, np.concatenate(forbidden)))
    logits[tuple(places)] = NEVER


def log_probabilities(pieces: Pieces, vocabulary: int) -> Tensor:
    """Return the log-probabilities (R, V) that logits stand for."""
    found = [logits[:, :vocabulary] - log_total[:, None] for logits, log_total in pieces]
    return found[0] if len(found) == 1 else torch.cat(found)
