"""Search: from a stepper to finished outputs. It is independent of models, text and tensors.

A `Search` is a state machine: each `step` extends every unfinished sentence by one token, and finished sentences
leave the batch. A strategy proposes candidates and chooses which of them continue: the best ones (this file),
random samples (`sampling.py`) or those that approach required phrases (`constraints.py`). Greedy search is a beam
of one.

Shapes: S sentences still being searched, K hypotheses of each, R = S·K rows, V vocabulary, C candidates of each
sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

NEVER = float("-inf")
Number = TypeVar("Number", float, "Tensor")
TokenSet = NDArray[np.int64]  # distinct tokens, ascending
Forbidden = Sequence[TokenSet] | None  # what may not follow each row, if anything
ShouldStop = Callable[[], bool]
Meaning = Callable[[Sequence[int]], Hashable]  # what makes outputs equal; by default their tokens


class Stopped(Exception):
    """The search was stopped because its result is no longer needed."""


class Extensions(NamedTuple):
    """The result of a step for a search: the best extensions of each sentence, and the end of each row.

    The columns are flat, one sentence after the other, because a list per sentence would cost more than using it.
    """

    scores: list[float]  # (S·C), each sentence's best first: log-probabilities of all tokens
    parents: list[int]  # (S·C): index of the sentence's row
    tokens: list[int]  # (S·C)
    ends: list[float]  # (R,): log-probability of the end token
    most_probable: list[int]  # (R,): token


class Stepper(Protocol):
    """The search's interface to a model: it keeps rows of tokens, the same number for each sentence.

    In `step` and `extend`, `forbidden` are the tokens that may not follow each row: their log-probability is
    NEVER, and the others are unchanged.
    """

    prompt_log_probabilities: list[float]  # of each sentence's prompt after its first token

    def step(self, tokens: list[int], forbidden: Forbidden = None) -> Tensor:
        """Append a token to each row (R,); return the log-probabilities of the next one (R, V)."""

    def extend(
        self, tokens: list[int], scores: list[list[float]], count: int, forbidden: Forbidden = None
    ) -> Extensions:
        """Append a token to each row; return the `count` best extensions of rows with these scores (S, K)."""

    def select(self, sentences: list[int] | None, rows: list[int]) -> None:
        """Keep these sentences (None: all) and these rows, in this order; a row may be kept several times."""


class Rule(Protocol):
    """A rule that forbids tokens, such as those that would complete a forbidden word."""

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        """Return which tokens may not follow an unfinished output."""


@dataclass(frozen=True)
class Hypothesis:
    """A finished output, whose tokens and log-probabilities include the end token."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float  # log-probability divided by the length penalty
    is_cut: bool = False  # the length limit ended it, not the model


@dataclass(frozen=True)
class BeamOptions:
    """The options of a beam search."""

    beam: int = 4
    alpha: float = 0.6
    n_best: int = 1

    @property
    def num_candidates(self) -> int:
        """The number of extensions of a sentence to consider.

        At most K of 2K end, one for each parent, so at least K remain to continue. A beam of one is greedy: if its
        best extension is the end, nothing continues.
        """
        return 2 * self.beam if self.beam > 1 else 1


class Candidate(NamedTuple):
    """One extension of one hypothesis."""

    score: float  # log-probability of all tokens
    parent: int  # index of the sentence's hypothesis
    token: int
    is_cut: bool = False  # the length limit ended it, not the model


NEW_CANDIDATE = partial(
    tuple.__new__, Candidate
)  # from a tuple of its four fields: takes a third of the time of a call


@dataclass(slots=True)
class Beam:
    """The search state of one sentence: its unfinished hypotheses, best first, and the best finished ones."""

    sentence: int  # index of the input
    limit: int  # maximum number of tokens of an output, end token included
    prompt_length: int
    prefixes: list[list[int]]  # prompt included
    scores: list[float]  # log-probabilities of the prefixes; NEVER for a row that only fills the beam
    parents: list[int] = field(default_factory=lambda: [0])  # their rows in the previous step
    finished: list[Hypothesis] = field(default_factory=list)
    last_length: int = field(init=False)  # longest prefix that may be extended by a token other than the end

    def __post_init__(self) -> None:
        self.last_length = self.prompt_length + self.limit - 2

    @property
    def length(self) -> int:
        """The number of tokens of the next step's extensions, without the prompt."""
        return len(self.prefixes[0]) - self.prompt_length + 1

    @property
    def is_at_limit(self) -> bool:
        """Whether the next token must be the end."""
        return len(self.prefixes[0]) > self.last_length

    def output(self, row: int) -> list[int]:
        """Return the output of a hypothesis so far."""
        return self.prefixes[row][self.prompt_length :]

    def finish(self, candidate: Candidate, options: BeamOptions, meaning: Meaning) -> None:
        """Keep a finished output if it is one of the n best; of equal outputs only the best."""
        tokens = (*self.output(candidate.parent), candidate.token)
        self.finished.append(finished_hypothesis(tokens, candidate.score, options.alpha, candidate.is_cut))
        self.finished.sort(key=lambda each: -each.score)
        if options.n_best > 1:
            self.finished = distinct(self.finished, meaning)
        del self.finished[options.n_best :]

    def go_on(self, chosen: list[Candidate], width: int) -> None:
        """Make the chosen candidates the hypotheses, and fill the beam with rows that cannot win."""
        if len(chosen) < width:
            fill = Candidate(NEVER, 0, self.prefixes[0][-1])
            chosen = chosen + [fill] * (width - len(chosen))
        self.prefixes = [[*self.prefixes[each.parent], each.token] for each in chosen]
        self.scores = [each.score for each in chosen]
        self.parents = [each.parent for each in chosen]

    def can_still_win(self, options: BeamOptions) -> bool:
        """Return whether the best unfinished hypothesis could still be one of the n best.

        Log-probabilities only decrease and the penalty is largest at the length limit, so this bound is valid.
        """
        if len(self.finished) < options.n_best:
            return self.scores[0] > NEVER
        return self.scores[0] / length_penalty(self.limit, options.alpha) > self.finished[-1].score


@dataclass(frozen=True)
class BeamStep:
    """One step of one sentence, with its best extensions, best first. Those that continue are, in this order, the
    parents of the next step.
    """

    sentence: int  # index of the input
    length: int  # tokens of the extended hypotheses
    parents: tuple[int, ...]
    tokens: tuple[int, ...]
    scores: tuple[float, ...]  # log-probabilities
    ended: tuple[bool, ...]
    went_on: tuple[bool, ...]


Watch = Callable[[BeamStep], None]


class Strategy(Protocol):
    """Proposes the candidates of a step, and chooses among them."""

    @property
    def eos(self) -> int:
        """The token that ends an output."""

    def candidates(self, stepper: Stepper, beams: Sequence[Beam], forbidden: Forbidden) -> list[list[Candidate]]:
        """Step all hypotheses; return the candidates of each sentence, best first."""

    def choose(self, beam: Beam, candidates: list[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
        """Return the candidates of a sentence that are finished, and those that continue."""


@dataclass(frozen=True)
class BestFirst:
    """The strategy of beam search (section 6.1): the most probable extensions continue."""

    options: BeamOptions
    eos: int

    def candidates(self, stepper: Stepper, beams: Sequence[Beam], forbidden: Forbidden) -> list[list[Candidate]]:
        """Return the best extensions of each sentence, or the ends of its hypotheses at its length limit."""
        newest = [prefix[-1] for beam in beams for prefix in beam.prefixes]
        found = stepper.extend(newest, [beam.scores for beam in beams], self.options.num_candidates, forbidden)
        candidates = candidates_of(found, len(beams))
        width = len(beams[0].scores)
        for place, beam in enumerate(beams):
            if beam.is_at_limit:
                candidates[place] = self.forced_ends(beam, found, slice(place * width, (place + 1) * width))
        return candidates

    def forced_ends(self, beam: Beam, found: Extensions, rows: slice) -> list[Candidate]:
        """Return the end of each hypothesis, best first; it counts as cut if the model would have continued."""
        of_rows = enumerate(zip(beam.scores, found.ends[rows], found.most_probable[rows], strict=True))
        ends = [Candidate(score + end, row, self.eos, best != self.eos) for row, (score, end, best) in of_rows]
        return sorted(ends, key=lambda each: -each.score)

    def choose(self, beam: Beam, candidates: list[Candidate]) -> tuple[list[Candidate], list[Candidate]]:  # noqa: ARG002
        """Finish the candidates that end and continue with the K best of the others.

        To end, a candidate must be among the K best of all.
        """
        return best_first(candidates, self.eos, self.options.beam)


def best_first(candidates: list[Candidate], eos: int, width: int) -> tuple[list[Candidate], list[Candidate]]:
    """Return the first candidates that end, and the first ones of the others, without impossible ones."""
    possible = [each for each in candidates if each.score > NEVER]
    ended = [each for each in possible[:width] if each.token == eos]
    return ended, [each for each in possible if each.token != eos][:width]


class Search:
    """The search of a batch: call `step` until `is_done`, then `results`.

    The stepper starts with one row per sentence, and has K per sentence after the first step.
    """

    def __init__(
        self,
        stepper: Stepper,
        prompts: Sequence[Sequence[int]],
        limits: Sequence[int],
        strategy: Strategy,
        options: BeamOptions,
        rules: Sequence[Rule] = (),
        watch: Watch | None = None,
        meaning: Meaning = tuple,
    ) -> None:
        """Begin each output after its prompt; `limits` bounds its tokens, end token included."""
        self.stepper, self.strategy, self.options = stepper, strategy, options
        self.rules, self.watch, self.meaning = rules, watch, meaning
        self.beams = [
            Beam(place, limit, len(prompt), [[*prompt]], [0.0])
            for place, (prompt, limit) in enumerate(zip(prompts, limits, strict=True))
        ]
        self.alive = self.beams

    @property
    def is_done(self) -> bool:
        """Whether no unfinished hypothesis can still become one of the n best."""
        return not self.alive

    @property
    def results(self) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence, best first; none if the rules allow none."""
        return [beam.finished for beam in self.beams]

    def run(self, should_stop: ShouldStop | None = None) -> list[list[Hypothesis]]:
        """Step to the end; raise `Stopped` when `should_stop` says so."""
        while not self.is_done:
            if should_stop is not None and should_stop():
                raise Stopped
            self.step()
        return self.results

    def step(self) -> None:
        """Extend every unfinished sentence by one token."""
        width, stay = len(self.alive[0].scores), [True] * len(self.alive)
        found = self.strategy.candidates(self.stepper, self.alive, self.forbidden())
        is_single, eos = self.options.beam == 1 and self.watch is None, self.strategy.eos
        for place, (beam, candidates) in enumerate(zip(self.alive, found, strict=True)):
            score, _, token, _ = candidates[0]
            if is_single and token != eos and score > NEVER:  # nearly every step of greedy search or sampling
                beam.prefixes[0].append(token)
                beam.scores[0] = score
            else:
                self.advance(beam, candidates)
                stay[place] = beam.can_still_win(self.options)
        if not (is_single and all(stay)):
            self.close_up(width, stay)

    def advance(self, beam: Beam, candidates: list[Candidate]) -> None:
        """Finish the candidates that end, and continue with those chosen."""
        ended, going_on = self.strategy.choose(beam, candidates)
        for candidate in ended:
            beam.finish(candidate, self.options, self.meaning)
        if self.watch is not None:
            self.watch(seen(beam, candidates, ended, going_on))
        beam.go_on(going_on, self.options.beam)

    def forbidden(self) -> list[TokenSet] | None:
        """Return the tokens that the rules forbid for each row; None if there are no rules."""
        if not self.rules:
            return None
        outputs = (beam.output(row) for beam in self.alive for row in range(len(beam.prefixes)))
        return [union([rule.forbidden(output) for rule in self.rules]) for output in outputs]

    def close_up(self, width: int, stay: list[bool]) -> None:
        """Remove finished sentences from the batch, which had `width` rows for each, and reorder the rest."""
        all_stay = all(stay)
        places = [*range(len(stay))] if all_stay else closed_up(stay)
        rows = [place * width + parent for place in places for parent in self.alive[place].parents]
        if rows and rows != [*range(len(stay) * width)]:
            self.stepper.select(None if all_stay else places, rows)
        self.alive = [self.alive[place] for place in places]


def length_penalty(length: Number, alpha: float) -> Number:
    """Return ((5 + length) / 6)^α, the penalty of Wu et al. (2016) that section 6.1 uses."""
    return ((5.0 + length) / 6.0) ** alpha


def finished_hypothesis(tokens: tuple[int, ...], total: float, alpha: float, is_cut: bool) -> Hypothesis:
    """Return a hypothesis with its score."""
    return Hypothesis(tokens, total, total / length_penalty(len(tokens), alpha), is_cut)


def distinct(found: Sequence[Hypothesis], meaning: Meaning) -> list[Hypothesis]:
    """Return the first of each group of equal hypotheses, in order."""
    first: dict[Hashable, Hypothesis] = {}
    for each in found:
        first.setdefault(meaning(each.tokens), each)
    return [*first.values()]


def candidates_of(found: Extensions, sentences: int) -> list[list[Candidate]]:
    """Return the extensions of each sentence (S, C) as candidates."""
    made = [*map(NEW_CANDIDATE, zip(found.scores, found.parents, found.tokens, repeat(False)))]
    count = len(made) // sentences
    return [made[begin : begin + count] for begin in range(0, len(made), count)]


def closed_up(stay: Sequence[bool]) -> list[int]:
    """Return the sentences that stay, in an order that moves few of them: the last ones fill the gaps."""
    count = sum(stay)
    last = [i for i in range(count, len(stay)) if stay[i]]
    return [i if stay[i] else last.pop() for i in range(count)]


def union(sets: Sequence[TokenSet]) -> TokenSet:
    """Return the tokens that are in any of the sets."""
    return sets[0] if len(sets) == 1 else np.unique(np.concatenate(sets))


def seen(beam: Beam, candidates: list[Candidate], ended: list[Candidate], going_on: list[Candidate]) -> BeamStep:
    """Return the description of a step for a watcher, before the beam continues."""
    return BeamStep(
        sentence=beam.sentence,
        length=beam.length,
        parents=tuple(each.parent for each in candidates),
        tokens=tuple(each.token for each in candidates),
        scores=tuple(each.score for each in candidates),
        ended=tuple(each in ended for each in candidates),
        went_on=tuple(each in going_on for each in candidates),
    )
