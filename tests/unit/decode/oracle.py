"""What stands for a model: a random function of the prefix, so that every output can be counted out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from sixfold.decode.search import (
    NEVER,
    BeamOptions,
    BestFirst,
    Extensions,
    Forbidden,
    Hypothesis,
    Rule,
    Search,
    Stepper,
    Strategy,
    Watch,
)
from sixfold.text.spelling import written

BOS, EOS = 0, 1
SPELLING = [b"", b"", b" a", b"b", b" ab", b" ", b"c", b"a"]  # spells every text of the letters a, b and c

Predict = Callable[[int, tuple[int, ...]], Tensor]
seeds = st.integers(0, 2**32 - 1)


class Oracle:
    """The log-probabilities of the next token: random, but decided by the sentence and its whole prefix."""

    def __init__(self, seed: int, vocabulary: int = 4) -> None:
        draw = np.random.default_rng(seed)
        self.seed, self.vocabulary = seed, vocabulary
        self.sharpness, self.wish_to_end = draw.uniform(0.3, 4), draw.uniform(-2, 2)
        self.never: list[int] = []
        self.known: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        key = (sentence, *prefix)
        if key not in self.known:
            logits = self.sharpness * np.random.default_rng((self.seed, *key)).normal(size=self.vocabulary)
            logits[EOS] += self.wish_to_end
            logits[self.never] = NEVER
            self.known[key] = torch.from_numpy(logits).log_softmax(dim=0)
        return self.known[key]


def text_oracle(seed: int, sharpness: float = 1.5) -> Oracle:
    """Return one that writes text, and never the begin token."""
    oracle = Oracle(seed, len(SPELLING))
    oracle.sharpness, oracle.wish_to_end, oracle.never = sharpness, 0.0, [BOS]
    return oracle


class PrefixStepper:
    """A stepper whose only memory is what a search told it: a row that is reordered wrongly is another prefix.

    It sorts all extensions, in plain lists.
    """

    def __init__(self, oracle: Predict, sentences: Sequence[int] = (0,), prompt: Sequence[int] = (BOS,)) -> None:
        self.oracle, self.sentences = oracle, list(sentences)
        self.prefixes: list[tuple[int, ...]] = [tuple(prompt[:-1])] * len(self.sentences)
        self.prompt_log_probabilities = [0.0] * len(self.sentences)
        self.num_rows: list[int] = []

    def step(self, tokens: list[int], forbidden: Forbidden = None) -> Tensor:
        width = len(self.prefixes) // len(self.sentences)
        self.num_rows.append(len(self.prefixes))
        self.prefixes = [(*row, token) for row, token in zip(self.prefixes, tokens, strict=True)]
        rows = enumerate(self.prefixes)
        log_probs = torch.stack([self.oracle(self.sentences[i // width], prefix[1:]) for i, prefix in rows])
        if forbidden is not None:
            for row, banned in zip(log_probs, forbidden, strict=True):
                row[banned.tolist()] = NEVER
        return log_probs

    def extend(
        self, tokens: list[int], scores: list[list[float]], count: int, forbidden: Forbidden = None
    ) -> Extensions:
        rows = self.step(tokens, forbidden).tolist()
        width = len(scores[0])
        best = [
            each
            for place, before in enumerate(scores)
            for each in best_first(before, rows[place * width : (place + 1) * width])[:count]
        ]
        found, parents, chosen = ([each[column] for each in best] for column in range(3))
        return Extensions(
            found, parents, chosen, [row[EOS] for row in rows], [row.index(max(row)) for row in rows]
        )

    def select(self, sentences: list[int] | None, rows: list[int]) -> None:
        self.prefixes = [self.prefixes[row] for row in rows]
        if sentences is not None:
            self.sentences = [self.sentences[i] for i in sentences]


def best_first(before: list[float], rows: list[list[float]]) -> list[tuple[float, int, int]]:
    """Return the score, parent and token of all extensions of a sentence's rows, best first."""
    every = [
        (score + more, parent, token)
        for parent, (score, row) in enumerate(zip(before, rows, strict=True))
        for token, more in enumerate(row)
    ]
    return sorted(every, key=lambda each: -each[0])


def search(
    stepper: Stepper,
    limits: Sequence[int],
    strategy: Strategy,
    options: BeamOptions,
    rules: Sequence[Rule] = (),
    watch: Watch | None = None,
) -> Search:
    """Return the search of some sentences after the begin token."""
    return Search(stepper, [[BOS]] * len(limits), limits, strategy, options, rules, watch)


def run_beam(
    oracle: Predict,
    sentences: Sequence[int],
    limits: Sequence[int],
    beam: int,
    alpha: float = 0.6,
    n_best: int = 1,
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    """Search some sentences together."""
    options = BeamOptions(beam, alpha, n_best)
    return search(PrefixStepper(oracle, sentences), limits, BestFirst(options, EOS), options, rules).run()


def all_outputs(oracle: Oracle, sentence: int, limit: int, alpha: float) -> list[Hypothesis]:
    """Return every output of at most `limit` tokens, best first."""
    others = [token for token in range(oracle.vocabulary) if token not in (EOS, *oracle.never)]
    found = [
        judged(oracle, sentence, (*words, EOS), limit, alpha)
        for length in range(limit)
        for words in itertools.product(others, repeat=length)
    ]
    return sorted(found, key=lambda each: -each.score)


def judged(oracle: Predict, sentence: int, tokens: tuple[int, ...], limit: int, alpha: float) -> Hypothesis:
    """Return the hypothesis that these tokens are."""
    steps = [oracle(sentence, tokens[:i]) for i in range(len(tokens))]
    total = sum(float(step[token]) for step, token in zip(steps, tokens, strict=True))
    is_cut = len(tokens) == limit and int(steps[-1].argmax()) != EOS
    return Hypothesis(tokens, total, total / ((5 + len(tokens)) / 6) ** alpha, is_cut)


def assert_same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    """Compare hypotheses: tokens and flags exactly, numbers within rounding."""
    assert [(each.tokens, each.is_cut) for each in found] == [(each.tokens, each.is_cut) for each in expected]
    assert_same_numbers(found, expected)


def assert_same_numbers(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    """Compare the tokens of hypotheses exactly, and numbers within rounding."""
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    for name in ("log_probability", "score"):
        wanted = [getattr(each, name) for each in expected]
        assert [getattr(each, name) for each in found] == pytest.approx(wanted, abs=1e-6)


def text(tokens: Sequence[int]) -> str:
    """Return what tokens spell."""
    return written(SPELLING, tokens)
