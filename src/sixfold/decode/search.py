"""Search: from a step function to hypotheses. It knows no model, no text and no files.

Shapes: S sentences still being searched, K hypotheses of each, R = S·K rows, V vocabulary, T tokens so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

NEVER = float("-inf")


class Stepper(Protocol):
    """What a search sees of a model: the next token's distribution, and a memory it may reorder."""

    def step(self, tokens: Tensor) -> Tensor:
        """Take the newest token of each row (R,); return log-probabilities of the next one (R, V)."""

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        """Keep these sentences (None: all) and these rows, in this order."""


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: its tokens end with the end mark, which also counts in the log-probabilities."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float  # log-probability divided by the length penalty
    is_cut: bool = False  # the length limit ended it, not the model


def length_penalty(length: Tensor | int, alpha: float) -> Tensor:
    """Return ((5 + length) / 6)^α, the penalty of Wu et al. (2016) that section 6.1 uses."""
    return ((5.0 + torch.as_tensor(length)) / 6.0) ** alpha


def greedy_search(stepper: Stepper, limits: Tensor, bos: int, eos: int, alpha: float = 0.0) -> list[Hypothesis]:
    """Take the most probable token at every step; `limits` (S,) bounds each output, end mark included."""
    num_sentences = limits.numel()
    alive = torch.arange(num_sentences, device=limits.device)  # which sentence each row is
    tokens = torch.full_like(limits, bos)
    outputs: list[list[int]] = [[] for _ in range(num_sentences)]
    totals = [0.0] * num_sentences
    is_cut = [False] * num_sentences
    while alive.numel():
        log_probs = stepper.step(tokens)
        best, tokens = log_probs.max(dim=-1)
        length = len(outputs[int(alive[0])]) + 1
        at_limit = limits[alive] <= length
        forced = at_limit & (tokens != eos)
        best = torch.where(forced, log_probs[:, eos], best)
        tokens = torch.where(at_limit, eos, tokens)
        for sentence, token, log_prob, cut in zip(
            alive.tolist(), tokens.tolist(), best.tolist(), forced.tolist(), strict=True
        ):
            outputs[sentence].append(token)
            totals[sentence] += log_prob
            is_cut[sentence] = cut
        unfinished = (tokens != eos).nonzero()[:, 0]
        if unfinished.numel() < alive.numel():
            stepper.select(unfinished, unfinished)
            alive, tokens = alive[unfinished], tokens[unfinished]
    return [
        Hypothesis(tuple(output), total, total / float(length_penalty(len(output), alpha)), cut)
        for output, total, cut in zip(outputs, totals, is_cut, strict=True)
    ]


@dataclass(frozen=True)
class BeamOptions:
    """How wide to search and what to prefer."""

    beam: int = 4
    alpha: float = 0.6
    n_best: int = 1


@dataclass
class BeamState:
    """The unfinished hypotheses of the sentences still being searched, and everything finished so far."""

    sentence: Tensor  # (S,) which input each sentence is
    limits: Tensor  # (S,) the most tokens its output may have
    tokens: Tensor  # (S, K, T) unfinished hypotheses, best first
    scores: Tensor  # (S, K) their log-probabilities; NEVER where there is none
    finished_scores: Tensor  # (S, N) the best finished scores of each, best first; NEVER where there is none
    finished: list[list[Hypothesis]] = field(default_factory=list)  # of every input


def beam_search(
    stepper: Stepper, limits: Tensor, bos: int, eos: int, options: BeamOptions
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence, best first (section 6.1).

    The search of a sentence ends when no unfinished hypothesis can still become one of the n best.
    """
    state = start(limits, bos, options)
    while state.sentence.numel():
        log_probs = stepper.step(state.tokens[:, :, -1].reshape(-1)).view(*state.scores.shape, -1)  # (S, K, V)
        scores, parents, tokens = best_candidates(state, log_probs, eos)
        collect_finished(state, log_probs, scores, parents, tokens, eos, options)
        rows = advance(state, scores, parents, tokens, eos)
        unfinished = can_still_win(state, options.alpha).nonzero()[:, 0]
        keep_sentences(state, unfinished, rows, stepper)
    return state.finished


def start(limits: Tensor, bos: int, options: BeamOptions) -> BeamState:
    """Begin every sentence with one hypothesis: the begin mark."""
    num_sentences, device = limits.numel(), limits.device
    scores = torch.full((num_sentences, options.beam), NEVER, device=device)
    scores[:, 0] = 0.0
    return BeamState(
        sentence=torch.arange(num_sentences, device=device),
        limits=limits,
        tokens=torch.full((num_sentences, options.beam, 1), bos, dtype=torch.long, device=device),
        scores=scores,
        finished_scores=torch.full((num_sentences, options.n_best), NEVER, device=device),
        finished=[[] for _ in range(num_sentences)],
    )


def best_candidates(state: BeamState, log_probs: Tensor, eos: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores, parents and tokens (S, 2K) of the best one-token extensions, best first.

    Of 2K extensions at most K end, one for each parent, so at least K remain to go on with.
    """
    extended = state.scores[:, :, None] + log_probs  # (S, K, V)
    at_limit = state.limits <= state.tokens.size(2)  # T counts the begin mark: one token is left
    if at_limit.any():
        ends = torch.zeros(extended.size(2), dtype=torch.bool, device=extended.device)
        ends[eos] = True
        extended = extended.masked_fill(at_limit[:, None, None] & ~ends, NEVER)
    _, beam, vocabulary = extended.shape
    scores, flat = extended.flatten(1).topk(min(2 * beam, beam * vocabulary), dim=1)
    return scores, flat // vocabulary, flat % vocabulary


def collect_finished(
    state: BeamState,
    log_probs: Tensor,
    scores: Tensor,
    parents: Tensor,
    tokens: Tensor,
    eos: int,
    options: BeamOptions,
) -> None:
    """Move the extensions that end into the finished ones, and keep the n best of these."""
    length = state.tokens.size(2)
    ended = (tokens == eos) & (scores > NEVER)
    ended[:, options.beam :] = False  # to end, an extension must be among the K best, as it must to go on
    penalised = scores / length_penalty(length, options.alpha)
    for s, candidate in ended.nonzero().tolist():
        parent = int(parents[s, candidate])
        hypothesis = Hypothesis(
            tokens=(*state.tokens[s, parent, 1:].tolist(), eos),
            log_probability=float(scores[s, candidate]),
            score=float(penalised[s, candidate]),
            is_cut=bool(state.limits[s] <= length and log_probs[s, parent].argmax() != eos),
        )
        best = state.finished[int(state.sentence[s])]
        best.append(hypothesis)
        best.sort(key=lambda each: -each.score)
        del best[options.n_best :]
    new = penalised.masked_fill(~ended, NEVER)
    state.finished_scores = torch.cat([state.finished_scores, new], dim=1).topk(options.n_best, dim=1).values


def advance(state: BeamState, scores: Tensor, parents: Tensor, tokens: Tensor, eos: int) -> Tensor:
    """Go on with the K best extensions that do not end; return the parents (S, K) they came from."""
    beam = state.scores.size(1)
    open_scores, order = scores.masked_fill(tokens == eos, NEVER).topk(beam, dim=1)
    parents, tokens = parents.gather(1, order), tokens.gather(1, order)
    prefixes = state.tokens.gather(1, parents[:, :, None].expand(-1, -1, state.tokens.size(2)))
    state.tokens = torch.cat([prefixes, tokens[:, :, None]], dim=2)
    state.scores = open_scores
    return parents


def can_still_win(state: BeamState, alpha: float) -> Tensor:
    """Return for each sentence (S,) whether its best unfinished hypothesis could still enter the n best.

    Log-probabilities only fall and the penalty is largest at the length limit, so this bound is exact.
    """
    bound = state.scores[:, 0] / length_penalty(state.limits, alpha)
    return bound > state.finished_scores[:, -1]


def keep_sentences(state: BeamState, unfinished: Tensor, parents: Tensor, stepper: Stepper) -> None:
    """Drop the sentences that are done, here and in the stepper's memory."""
    beam = state.scores.size(1)
    rows = (unfinished[:, None] * beam + parents[unfinished]).reshape(-1)
    if unfinished.numel() < state.sentence.numel():
        state.sentence, state.limits = state.sentence[unfinished], state.limits[unfinished]
        state.tokens, state.scores = state.tokens[unfinished], state.scores[unfinished]
        state.finished_scores = state.finished_scores[unfinished]
        stepper.select(unfinished, rows)
    else:
        stepper.select(None, rows)
